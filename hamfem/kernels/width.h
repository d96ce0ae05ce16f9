/* How many numbers a vector of the machine that is compiled for holds. */
#ifndef WIDTH
#if defined(__AVX512F__)
#define WIDTH 8
#elif defined(__AVX__)
#define WIDTH 4
#else
#define WIDTH 2
#endif
#endif
