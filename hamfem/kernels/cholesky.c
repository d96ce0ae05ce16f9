/* A = P'L L'P by CHOLMOD's supernodal factorisation, and solves that read L once in each direction.
 *
 * A supernode is a run of columns with the same rows below: a dense trapezoid, stored by columns, of
 * which the upper square is triangular. CHOLMOD's own solve calls BLAS for each of them, which costs
 * more than the arithmetic where they are small, as on meshes in 2D; here four columns at a time are
 * solved and applied to the rows below in one pass.
 */

#include <stdlib.h>
#include <string.h>
#if __has_include(<suitesparse/cholmod.h>)
#include <suitesparse/cholmod.h>
#else
#include <cholmod.h>
#endif

#include "width.h"

/* The columns of L begin anywhere, and rows of a supernode are not padded. */
typedef double vec __attribute__((vector_size(8 * WIDTH), aligned(8)));

typedef struct {
    cholmod_common common;
    cholmod_factor *L;
    double *y, *w; /* the vector in the order of L, and the rows of one supernode */
} factor;

void release(factor *F)
{
    if (!F)
        return;
    cholmod_free_factor(&F->L, &F->common);
    cholmod_finish(&F->common);
    free(F->y);
    free(F->w);
    free(F);
}

/* The factor of a symmetric matrix with all its entries in rows; NULL if it is not definite. */
factor *factorise(int n, int *indptr, int *indices, double *values)
{
    factor *F = calloc(1, sizeof *F);
    if (!F)
        return NULL;
    cholmod_start(&F->common);
    F->common.print = 0;
    F->common.supernodal = CHOLMOD_SUPERNODAL;
    /* Wide supernodes with explicit zeros pay for calls of BLAS that are not made here: against the
     * default (4, 16, 48), L has 0.85 of the entries in 2D and a solve takes 0.9 of the time. */
    F->common.nrelax[0] = 4;
    F->common.nrelax[1] = 8;
    F->common.nrelax[2] = 16;
    cholmod_sparse A = {
        .nrow = n, .ncol = n, .nzmax = indptr[n], .p = indptr, .i = indices, .x = values,
        .stype = 1, .itype = CHOLMOD_INT, .xtype = CHOLMOD_REAL, .dtype = CHOLMOD_DOUBLE,
        .sorted = 1, .packed = 1,
    };
    F->L = cholmod_analyze(&A, &F->common);
    if (F->L && cholmod_factorize(&A, F->L, &F->common) && F->L->minor == F->L->n) {
        /* The work space of the factorisation is not needed again. */
        cholmod_free_work(&F->common);
        /* A product with the inverse of the diagonal does not wait as long as a division. */
        const int *super = F->L->super, *pi = F->L->pi, *px = F->L->px;
        for (size_t k = 0; k < F->L->nsuper; ++k)
            for (long j = 0; j < super[k + 1] - super[k]; ++j) {
                double *d = (double *)F->L->x + px[k] + j * (pi[k + 1] - pi[k] + 1);
                *d = 1 / *d;
            }
        F->y = malloc(sizeof(double) * n);
        F->w = malloc(sizeof(double) * n);
        if (F->y && F->w)
            return F;
    }
    release(F);
    return NULL;
}

/* How many numbers L holds. */
double entries(const factor *F) { return (double)F->L->xsize; }

/* The sum of the lanes, by halves: no sum waits for more than two others. */
static inline __attribute__((always_inline)) double total(vec s)
{
    double t[WIDTH];
    memcpy(t, &s, sizeof t);
    for (int half = WIDTH / 2; half; half /= 2)
        for (int k = 0; k < half; ++k)
            t[k] += t[k + half];
    return t[0];
}

/* w -= L a, for a few columns below their triangle. Whole vectors end with the rows, so that they are
 * the same ones for the next columns. */
static inline __attribute__((always_inline)) void subtract(int columns, long rows, const double *L,
                                                           long stride, const double *a, double *w)
{
    const long head = rows % WIDTH;
    for (long i = 0; i < head; ++i) {
        double s = w[i];
        for (int j = 0; j < columns; ++j)
            s -= L[j * stride + i] * a[j];
        w[i] = s;
    }
    for (long i = head; i < rows; i += WIDTH) {
        vec s = *(const vec *)(w + i);
        for (int j = 0; j < columns; ++j)
            s -= *(const vec *)(L + j * stride + i) * a[j];
        *(vec *)(w + i) = s;
    }
}

/* a -= L'w, for a few columns below their triangle. */
static inline __attribute__((always_inline)) void project(int columns, long rows, const double *L,
                                                          long stride, const double *w, double *a)
{
    const long head = rows % WIDTH;
    vec s[4] = {{0}};
    for (long i = head; i < rows; i += WIDTH)
        for (int j = 0; j < columns; ++j)
            s[j] += *(const vec *)(L + j * stride + i) * *(const vec *)(w + i);
    for (long i = 0; i < head; ++i)
        for (int j = 0; j < columns; ++j)
            a[j] -= L[j * stride + i] * w[i];
    for (int j = 0; j < columns; ++j)
        a[j] -= total(s[j]);
}

/* L w = w on some columns: their triangle, and the rows below it. */
static inline __attribute__((always_inline)) void down(int columns, long rows, const double *L,
                                                       long stride, double *w)
{
    double a[4];
    for (int j = 0; j < columns; ++j) {
        double t = w[j];
        for (int k = 0; k < j; ++k)
            t -= L[k * stride + j] * a[k];
        w[j] = a[j] = t * L[j * stride + j];
    }
    subtract(columns, rows - columns, L + columns, stride, a, w + columns);
}

/* L'w = w on some columns, for what is known in the rows below. */
static inline __attribute__((always_inline)) void up(int columns, long rows, const double *L,
                                                     long stride, double *w)
{
    double a[4];
    memcpy(a, w, sizeof(double) * columns);
    project(columns, rows - columns, L + columns, stride, w + columns, a);
    for (int j = columns - 1; j >= 0; --j) {
        for (int k = j + 1; k < columns; ++k)
            a[j] -= L[j * stride + k] * w[k];
        w[j] = a[j] * L[j * stride + j];
    }
}

/* Supernodes are too short for the hardware to foresee the next one. */
static inline __attribute__((always_inline)) void fetch(const double *B, long length)
{
    for (long i = 0; i < length && i < 4096; i += 8)
        __builtin_prefetch(B + i);
}

/* x = A^-1 r. */
void solve(factor *F, const double *r, double *x)
{
    const cholmod_factor *L = F->L;
    const int *perm = L->Perm, *super = L->super, *pi = L->pi, *px = L->px, *s = L->s;
    const double *values = L->x;
    double *restrict y = F->y, *restrict w = F->w;
    const long n = L->n, count = L->nsuper;
    for (long i = 0; i < n; ++i)
        y[i] = r[perm[i]];
    for (long k = 0; k < count; ++k) {
        const int first = super[k], columns = super[k + 1] - first;
        const long rows = pi[k + 1] - pi[k];
        const int *row = s + pi[k];
        const double *B = values + px[k];
        if (k + 1 < count)
            fetch(values + px[k + 1], px[k + 2] - px[k + 1]);
        memcpy(w, y + first, sizeof(double) * columns);
        memset(w + columns, 0, sizeof(double) * (rows - columns));
        int j = 0;
        for (; j + 4 <= columns; j += 4)
            down(4, rows - j, B + j * (rows + 1), rows, w + j);
        for (; j < columns; ++j)
            down(1, rows - j, B + j * (rows + 1), rows, w + j);
        memcpy(y + first, w, sizeof(double) * columns);
        for (long i = columns; i < rows; ++i)
            y[row[i]] += w[i];
    }
    for (long k = count - 1; k >= 0; --k) {
        const int first = super[k], columns = super[k + 1] - first;
        const long rows = pi[k + 1] - pi[k];
        const int *row = s + pi[k];
        const double *B = values + px[k];
        if (k > 0)
            fetch(values + px[k - 1], px[k] - px[k - 1]);
        memcpy(w, y + first, sizeof(double) * columns);
        for (long i = columns; i < rows; ++i)
            w[i] = y[row[i]];
        int j = columns;
        for (; j % 4; --j)
            up(1, rows - j + 1, B + (j - 1) * (rows + 1), rows, w + j - 1);
        for (; j > 0; j -= 4)
            up(4, rows - j + 4, B + (j - 4) * (rows + 1), rows, w + j - 4);
        memcpy(y + first, w, sizeof(double) * columns);
    }
    for (long i = 0; i < n; ++i)
        x[perm[i]] = y[i];
}
