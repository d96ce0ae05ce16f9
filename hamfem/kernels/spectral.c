/* r += K x for spectral elements of POINTS Gauss-Lobatto points in each of DIM directions.
 *
 * On a cell, K = sum_ab D_a' G_ab D_b, where D_a differentiates in direction a of the reference cell
 * and G_ab acts at each point by itself. WIDTH cells are worked on at once, one in each lane of a
 * vector; another width than the machine's costs a factor of three. With F = J^-1, F_aj = dX_a/dx_j:
 *
 * COMPONENTS = 1    K = (kappa grad u, grad w): G_ab = w |det J| (F kappa F')_ab is stored;
 * COMPONENTS = DIM  K = (C eps(u), eps(w)): stored are F and w |det J| times lambda and mu where
 *                   ISOTROPIC, else times C_ijkl. Fewer numbers than G_ai,bk, which has 45 in 3D.
 *
 * Layout, per batch of cells: dofs[point][lane] of the first component, factors[point][number][lane],
 * with point = (i POINTS + j) POINTS + k for the i-th, j-th, k-th point in directions 0, 1, 2. The
 * numbers are G_ab, ab = 00 01 (02) 11 (12 22); or F_aj with j running fastest, and then lambda, mu
 * or the upper triangle, row by row, of C_ijkl with ij and kl = 00 11 01, in 3D 00 11 22 12 02 01.
 */

#include "width.h"

#define PAIRS (DIM * (DIM + 1) / 2)
#if COMPONENTS == 1
#define FACTORS PAIRS
#elif ISOTROPIC
#define FACTORS (DIM * DIM + 2)
#else
#define FACTORS (DIM * DIM + PAIRS * (PAIRS + 1) / 2)
#endif
#if DIM == 3
#define PLANE (POINTS * POINTS)
#else
#define PLANE POINTS
#endif
#define CELL (POINTS * PLANE)
#define UNROLL _Pragma("GCC unroll 16")
#if DIM == 3
#define UNROLL_IN_2D
#else
#define UNROLL_IN_2D UNROLL
#endif

typedef double vec __attribute__((vector_size(8 * WIDTH)));

int width(void) { return WIDTH; }
int factors(void) { return FACTORS; }

/* The indices of a dof: an owned one in x; a ghost, or last of all the constant 0, in beyond. Other
 * components than the first follow it: they are found with the same numbers in x + 1 and so on. */
static inline __attribute__((always_inline)) vec gather(const int *dof, int plain, int owned,
                                                        const double *x, const double *beyond)
{
    vec v;
    UNROLL
    for (int w = 0; w < WIDTH; ++w)
        v[w] = plain || dof[w] < owned ? x[dof[w]] : beyond[dof[w] - owned];
    return v;
}

/* Lane by lane, for two cells of a batch may share a dof. */
static inline __attribute__((always_inline)) void scatter(const int *dof, vec v, double *r)
{
    UNROLL
    for (int w = 0; w < WIDTH; ++w)
        r[dof[w]] += v[w];
}

/* out_i = sum_a D_ia in_a along a line of points; out may be in. */
static inline __attribute__((always_inline)) void differentiate(const double *D, const vec *in,
                                                                vec *out, int stride)
{
    vec t[POINTS];
    UNROLL
    for (int a = 0; a < POINTS; ++a)
        t[a] = in[a * stride];
    UNROLL
    for (int i = 0; i < POINTS; ++i) {
        vec sum = D[i * POINTS] * t[0];
        UNROLL
        for (int a = 1; a < POINTS; ++a)
            sum += D[i * POINTS + a] * t[a];
        out[i * stride] = sum;
    }
}

/* out_i += sum_a D_ai in_a, or without the sum before if `set`. */
static inline __attribute__((always_inline)) void transposed(const double *D, const vec *in,
                                                             vec *out, int stride, int set)
{
    vec t[POINTS];
    UNROLL
    for (int a = 0; a < POINTS; ++a)
        t[a] = in[a * stride];
    UNROLL
    for (int i = 0; i < POINTS; ++i) {
        vec sum = D[i] * t[0];
        UNROLL
        for (int a = 1; a < POINTS; ++a)
            sum += D[a * POINTS + i] * t[a];
        out[i * stride] = set ? sum : out[i * stride] + sum;
    }
}

/* Some quarters of a point's factors in the next batch: else the memory would rest for most of the
 * time. Spread over gathering and scattering it runs 1.5 times faster in 3D. Vectors have more numbers
 * at a point than those two can wait for: half of them come during the work on the planes. */
#define QUARTERS (COMPONENTS == 1 ? 2 : 1)
static inline __attribute__((always_inline)) void fetch(const vec *g, int begin, int end)
{
    const double *next = (const double *)(g + CELL * FACTORS);
    UNROLL
    for (int i = begin * FACTORS * WIDTH / 4; i < end * FACTORS * WIDTH / 4; i += 8)
        __builtin_prefetch(next + i, 0, 2);
}

#if COMPONENTS == 1

/* f_a = sum_b G_ab d_b; f stands where d stood. */
static inline __attribute__((always_inline)) void point(const vec *g, vec f[DIM][COMPONENTS])
{
#if DIM == 3
    vec a = f[0][0], b = f[1][0], c = f[2][0];
    f[0][0] = g[0] * a + g[1] * b + g[2] * c;
    f[1][0] = g[1] * a + g[3] * b + g[4] * c;
    f[2][0] = g[2] * a + g[4] * b + g[5] * c;
#else
    vec a = f[0][0], b = f[1][0];
    f[0][0] = g[0] * a + g[1] * b;
    f[1][0] = g[1] * a + g[2] * b;
#endif
}

#else

/* H = grad u becomes the stress. */
static inline __attribute__((always_inline)) void stress(const vec *C, vec H[DIM][DIM])
{
#if ISOTROPIC
    /* 2 mu eps + lambda (div u) I */
    vec pressure = H[0][0] + H[1][1];
#if DIM == 3
    pressure += H[2][2];
#endif
    pressure *= C[0];
    UNROLL
    for (int i = 0; i < DIM; ++i) {
        H[i][i] = C[1] * (H[i][i] + H[i][i]) + pressure;
        UNROLL
        for (int j = 0; j < i; ++j)
            H[i][j] = H[j][i] = C[1] * (H[i][j] + H[j][i]);
    }
#else
    /* sigma_ij = sum_k C_ijkk eps_kk + sum_k<l C_ijkl 2 eps_kl */
#if DIM == 3
    static const int row[PAIRS] = {0, 1, 2, 1, 0, 0}, column[PAIRS] = {0, 1, 2, 2, 2, 1};
#else
    static const int row[PAIRS] = {0, 1, 0}, column[PAIRS] = {0, 1, 1};
#endif
    vec strain[PAIRS];
    UNROLL
    for (int a = 0; a < PAIRS; ++a) {
        strain[a] = H[row[a]][column[a]];
        if (a >= DIM)
            strain[a] += H[column[a]][row[a]];
    }
    UNROLL
    for (int a = 0; a < PAIRS; ++a) {
        vec sum = C[a] * strain[0];
        UNROLL
        for (int b = 1; b < PAIRS; ++b) {
            int low = a < b ? a : b, high = a < b ? b : a;
            sum += C[low * PAIRS - low * (low + 1) / 2 + high] * strain[b];
        }
        H[row[a]][column[a]] = H[column[a]][row[a]] = sum;
    }
#endif
}

/* f_ai = sum_j F_aj sigma_ij, sigma from H_ij = sum_a F_aj d_ai; f stands where d stood. */
static inline __attribute__((always_inline)) void point(const vec *F, vec f[DIM][COMPONENTS])
{
    vec H[DIM][DIM];
    UNROLL
    for (int i = 0; i < DIM; ++i)
        UNROLL
        for (int j = 0; j < DIM; ++j) {
            vec sum = F[j] * f[0][i];
            UNROLL
            for (int a = 1; a < DIM; ++a)
                sum += F[a * DIM + j] * f[a][i];
            H[i][j] = sum;
        }
    stress(F + DIM * DIM, H);
    UNROLL
    for (int a = 0; a < DIM; ++a)
        UNROLL
        for (int i = 0; i < DIM; ++i) {
            vec sum = F[a * DIM] * H[i][0];
            UNROLL
            for (int j = 1; j < DIM; ++j)
                sum += F[a * DIM + j] * H[i][j];
            f[a][i] = sum;
        }
}

#endif

/* The cell's K: u is the displacement and becomes the force, less the part D_0'f0 that f0 keeps. The
 * derivative in direction 0 stands in f0 already. One plane at a time: it stays in the first cache. */
static inline __attribute__((always_inline)) void planes(const double *D, const vec *G, vec *u, vec *f0)
{
    for (int i = 0; i < POINTS; ++i, u += PLANE, f0 += PLANE, G += PLANE * FACTORS) {
        vec f[DIM - 1][COMPONENTS][PLANE];
        for (int c = 0; c < COMPONENTS; ++c) {
#if DIM == 3
            for (int k = 0; k < POINTS; ++k)
                differentiate(D, u + c * CELL + k, f[0][c] + k, POINTS);
#endif
            for (int j = 0; j < PLANE; j += POINTS)
                differentiate(D, u + c * CELL + j, f[DIM - 2][c] + j, 1);
        }
        UNROLL_IN_2D
        for (int p = 0; p < PLANE; ++p) {
            vec t[DIM][COMPONENTS];
            UNROLL
            for (int c = 0; c < COMPONENTS; ++c) {
                t[0][c] = f0[c * CELL + p];
                UNROLL
                for (int a = 1; a < DIM; ++a)
                    t[a][c] = f[a - 1][c][p];
            }
            fetch(G + p * FACTORS, QUARTERS, 4 - QUARTERS);
            point(G + p * FACTORS, t);
            UNROLL
            for (int c = 0; c < COMPONENTS; ++c) {
                f0[c * CELL + p] = t[0][c];
                UNROLL
                for (int a = 1; a < DIM; ++a)
                    f[a - 1][c][p] = t[a][c];
            }
        }
        for (int c = 0; c < COMPONENTS; ++c) {
            for (int j = 0; j < PLANE; j += POINTS)
                transposed(D, f[DIM - 2][c] + j, u + c * CELL + j, 1, 1);
#if DIM == 3
            for (int k = 0; k < POINTS; ++k)
                transposed(D, f[0][c] + k, u + c * CELL + k, POINTS, 0);
#endif
        }
    }
}

static inline __attribute__((always_inline)) void batch(const int *dofs, const vec *G,
                                                        const double *D, int plain, int owned,
                                                        const double *x, const double *beyond,
                                                        double *r)
{
    vec u[COMPONENTS * CELL], f0[COMPONENTS * CELL];
    for (int p = 0; p < CELL; ++p) {
        fetch(G + p * FACTORS, 0, QUARTERS);
        UNROLL
        for (int c = 0; c < COMPONENTS; ++c)
            u[c * CELL + p] = gather(dofs + p * WIDTH, plain, owned, x + c, beyond + c);
    }
    for (int c = 0; c < COMPONENTS; ++c)
        for (int p = c * CELL; p < c * CELL + PLANE; ++p)
            differentiate(D, u + p, f0 + p, PLANE);
    planes(D, G, u, f0);
    for (int c = 0; c < COMPONENTS; ++c)
        for (int p = c * CELL; p < c * CELL + PLANE; ++p)
            transposed(D, f0 + p, u + p, PLANE, 0);
    for (int p = 0; p < CELL; ++p) {
        fetch(G + p * FACTORS, 4 - QUARTERS, 4);
        UNROLL
        for (int c = 0; c < COMPONENTS; ++c)
            scatter(dofs + p * WIDTH, u[c * CELL + p], r + c);
    }
}

/* r += K x over the batches begin <= b < end; plain[b] says that all dofs of a batch are owned. */
void apply(long begin, long end, const int *dofs, const unsigned char *plain, const double *factors,
           const double *D, int owned, const double *x, const double *beyond, double *r)
{
    double d[POINTS * POINTS];
    for (int i = 0; i < POINTS * POINTS; ++i)
        d[i] = D[i];
    for (long b = begin; b < end; ++b) {
        const int *cells = dofs + b * CELL * WIDTH;
        const vec *G = (const vec *)factors + b * CELL * FACTORS;
        if (plain[b])
            batch(cells, G, d, 1, owned, x, beyond, r);
        else
            batch(cells, G, d, 0, owned, x, beyond, r);
    }
}

/* y += d r; r = 0: a kick in one pass over memory. Without d, it is 1. */
void kick(long n, const double *restrict d, double *restrict r, double *restrict y)
{
    if (d)
        for (long i = 0; i < n; ++i) {
            y[i] += d[i] * r[i];
            r[i] = 0.0;
        }
    else
        for (long i = 0; i < n; ++i) {
            y[i] += r[i];
            r[i] = 0.0;
        }
}

/* y = d r; r = 0. Without d, it is 1. */
void take(long n, const double *restrict d, double *restrict r, double *restrict y)
{
    if (d)
        for (long i = 0; i < n; ++i) {
            y[i] = d[i] * r[i];
            r[i] = 0.0;
        }
    else
        for (long i = 0; i < n; ++i) {
            y[i] = r[i];
            r[i] = 0.0;
        }
}
