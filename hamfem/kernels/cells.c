/* Products with small matrices, one for each cell, and the traces of the cells' facets.
 *
 * Matrices are stored by columns, A[cell][column][row]. A column is short and its length known only
 * here: it is covered by vectors of four, of which the last one overlaps the one before. So nothing is
 * done number by number, unless a column has less than four.
 */

typedef double vec __attribute__((vector_size(32), aligned(8)));
typedef long mask __attribute__((vector_size(32)));

static inline vec load(const double *x) { return *(const vec *)x; }

/* y += A x for `blocks` vectors of rows, which a compiler keeps in registers. */
static inline __attribute__((always_inline)) void rows(int blocks, int columns, int n,
                                                       const double *A, const double *x, double *y)
{
    vec sum[4];
    for (int b = 0; b < blocks; b++)
        sum[b] = load(y + 4 * b);
    for (int j = 0; j < columns; j++)
        for (int b = 0; b < blocks; b++)
            sum[b] += load(A + (long)j * n + 4 * b) * x[j];
    for (int b = 0; b < blocks; b++)
        *(vec *)(y + 4 * b) = sum[b];
}

/* The same for n < 4 rows. */
static inline __attribute__((always_inline)) void few(int n, int columns, const double *A,
                                                      const double *x, double *y)
{
    double sum[3];
    for (int i = 0; i < n; i++)
        sum[i] = y[i];
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < n; i++)
            sum[i] += A[j * n + i] * x[j];
    for (int i = 0; i < n; i++)
        y[i] = sum[i];
}

/* y += A x, A with n rows. */
static inline void product(int columns, int n, const double *A, const double *x, double *y)
{
    switch (n) {
    case 1: few(1, columns, A, x, y); return;
    case 2: few(2, columns, A, x, y); return;
    case 3: few(3, columns, A, x, y); return;
    }
    int whole = n / 4, last = n - 4;
    vec end = load(y + last); /* before the others write to a part of it */
    if (n % 4)
        for (int j = 0; j < columns; j++)
            end += load(A + (long)j * n + last) * x[j];
    int b = 0;
    for (; b + 4 <= whole; b += 4)
        rows(4, columns, n, A + 4 * b, x, y + 4 * b);
    switch (whole - b) {
    case 3: rows(3, columns, n, A + 4 * b, x, y + 4 * b); break;
    case 2: rows(2, columns, n, A + 4 * b, x, y + 4 * b); break;
    case 1: rows(1, columns, n, A + 4 * b, x, y + 4 * b); break;
    }
    if (n % 4)
        *(vec *)(y + last) = end;
}

/* The sums of the numbers in each of four vectors. */
static inline vec sums(vec a, vec b, vec c, vec d)
{
    vec ab = __builtin_shuffle(a, b, (mask){0, 4, 2, 6}) + __builtin_shuffle(a, b, (mask){1, 5, 3, 7});
    vec cd = __builtin_shuffle(c, d, (mask){0, 4, 2, 6}) + __builtin_shuffle(c, d, (mask){1, 5, 3, 7});
    return __builtin_shuffle(ab, cd, (mask){0, 1, 4, 5}) + __builtin_shuffle(ab, cd, (mask){2, 3, 6, 7});
}

/* y += A'x; `end` has the last numbers of x that are in no whole vector, behind zeros. */
static inline void transposed(int columns, int n, const double *A, const double *x, vec end,
                              double *y)
{
    int j = 0, last = n - 4;
    if (n >= 4)
        for (; j + 4 <= columns; j += 4) {
            const double *a = A + (long)j * n;
            vec s[4] = {load(a + last) * end, load(a + n + last) * end, load(a + 2 * n + last) * end,
                        load(a + 3 * n + last) * end};
            for (int i = 0; i + 4 <= n; i += 4)
                for (int c = 0; c < 4; c++)
                    s[c] += load(a + c * n + i) * load(x + i);
            *(vec *)(y + j) += sums(s[0], s[1], s[2], s[3]);
        }
    if (n == 3)
        for (; j < columns; j++)
            y[j] += A[j * n] * x[0] + A[j * n + 1] * x[1] + A[j * n + 2] * x[2];
    for (; j < columns; j++) {
        double s = 0.0;
        for (int i = 0; i < n; i++)
            s += A[(long)j * n + i] * x[i];
        y[j] += s;
    }
}

static inline vec remaining(int n, const double *x)
{
    vec end = {0.0, 0.0, 0.0, 0.0};
    if (n >= 4)
        for (int i = n - n % 4; i < n; i++)
            end[i - n + 4] = x[i];
    return end;
}

/* out_c += A_c x_c */
void add_local(long cells, int columns, int n, const double *A, const double *x, double *out)
{
    for (long c = 0; c < cells; c++)
        product(columns, n, A + c * columns * n, x + c * columns, out + c * n);
}

/* out_c += A_c'x_c */
void add_transposed(long cells, int columns, int n, const double *A, const double *x, double *out)
{
    for (long c = 0; c < cells; c++)
        transposed(columns, n, A + c * columns * n, x + c * n, remaining(n, x + c * n),
                   out + c * columns);
}

/* out_c += A_c m_c with the traces m_c of the cell's facets. */
void add_from_trace(long cells, int facets, int size, int n, const double *A, const int *slots,
                    const double *trace, double *out)
{
    for (long c = 0; c < cells; c++)
        for (int f = 0; f < facets; f++)
            product(size, n, A + (c * facets + f) * size * n,
                    trace + (long)slots[c * facets + f] * size, out + c * n);
}

/* The traces of each cell's facets += A_c'x_c */
void add_to_trace(long cells, int facets, int size, int n, const double *A, const int *slots,
                  const double *x, double *trace)
{
    for (long c = 0; c < cells; c++) {
        vec end = remaining(n, x + c * n);
        for (int f = 0; f < facets; f++)
            transposed(size, n, A + (c * facets + f) * size * n, x + c * n, end,
                       trace + (long)slots[c * facets + f] * size);
    }
}

/* out_c = D_c x_c + A_c m_c, with D_c square. */
void combine(long cells, int facets, int size, int n, const double *D, const double *x,
             const double *A, const int *slots, const double *trace, double *out)
{
    for (long c = 0; c < cells; c++) {
        double *y = out + c * n;
        for (int i = 0; i < n; i++)
            y[i] = 0.0;
        product(n, n, D + c * n * n, x + c * n, y);
        for (int f = 0; f < facets; f++)
            product(size, n, A + (c * facets + f) * size * n,
                    trace + (long)slots[c * facets + f] * size, y);
    }
}
