/* The Yee scheme by rows.

     eps dv/dt = -curl' q + J - R v,     mu dq/dt = curl v,     v = -E on edges, q = H on faces,

   for a block of the grid: component a of a half is an array of planes, rows and places in a row.
   Kicks update v from q and drifts q from v, in place.

   A sweep does several kicks and drifts in one pass over memory. It goes through the planes; where
   the first update is at plane i, the following ones are behind it: a drift is one plane behind the
   kick before it, because it needs the plane above, and a kick is level with the drift before it.
   Rows are treated alike, in tiles that leave the planes under way in the cache. So every update
   finds its neighbours as the update before it left them. What needs periodic sides or other ranks
   is done after the sweep. */

#include <string.h>
#include <unistd.h>

/* How many kicks and drifts may share a sweep. */
#define DEEPEST 64

typedef struct {
    double *x;             /* the numbers, or null if the half lacks this component */
    const double *inverse; /* 1/eps or 1/mu for each of them, or null if it is one number */
    double number;         /* that number */
    long planes, rows, length;
    const double *beyond[2]; /* the rows below (q) or above (v) the block along axes 0 and 1 */
    long stride[2];          /* from row to row, or from plane to plane, there */
    /* Numbers with loads or damping, by rows: */
    const int *start;  /* where those of a row begin, or null if there are none */
    const int *place;  /* in the row */
    const double *inverse_mass, *damping, *load; /* damping: or null; load: one for each amplitude */
    double *old; /* room for a row */
} Block;

typedef struct {
    int component, axis, last; /* the last plane (axis 0) or row (axis 1) is sent, or the first */
    double *buffer;
} Parcel;

typedef struct {
    int requests, parcels;
    void *request, *status;
    Parcel *parcel;
} Exchange;

typedef struct {
    Block half[2][3];     /* v and q */
    double rate[3];       /* 1/h along each axis; 0 where there is nothing to differentiate */
    int end[3][2];        /* at the ends of the block: 0 open, 1 free, 2 conducting */
    int periodic;         /* along the last axis */
    int ahead;            /* whether memory is so much that it must be asked for ahead of time */
    int unit;             /* whether coefficients count as 1, loads and damping as none */
    const double *zero;   /* a row of zeros */
    int amplitudes;
    Exchange exchange[2]; /* of v, with rows above, and of q, with rows below */
    int (*startall)(int, void *);
    int (*waitall)(int, void *, void *);
    double work, outflow;
} Grid;

typedef const double *restrict Row;

/* ---------------------------------------------------------------- rows */

static inline const double *own(const Block *b, long i, long j)
{
    return b->x + (i * b->rows + j) * b->length;
}

/* How a number along a wall sees the difference across it: twice, or not at all. */
static inline double side(const Grid *g, int axis, long i, long count)
{
    static const double factor[3] = {1.0, 2.0, 0.0};
    double f = 1.0;
    if (i == 0)
        f = factor[g->end[axis][0]];
    if (i == count - 1 && g->end[axis][1])
        f = factor[g->end[axis][1]];
    return f;
}

/* The row (i, j) of q, or of v, or what stands there beyond the block. */
static inline const double *row(const Grid *g, int half, int c, long i, long j)
{
    const Block *b = &g->half[half][c];
    if (!b->x)
        return g->zero;
    /* v is 0 on conducting walls, whatever stands there. */
    if (!half && ((c != 0 && side(g, 0, i, b->planes) == 0.0) ||
                  (c != 1 && side(g, 1, j, b->rows) == 0.0)))
        return g->zero;
    /* Above the last q there is nothing but a wall, and v ends with the wall itself. */
    if (i < 0 || (!half && i >= b->planes))
        return b->beyond[0] ? b->beyond[0] + j * b->stride[0] : g->zero;
    if (j < 0 || (!half && j >= b->rows))
        return b->beyond[1] ? b->beyond[1] + i * b->stride[1] : g->zero;
    if (i >= b->planes || j >= b->rows)
        return g->zero;
    return own(b, i, j);
}

/* x += m (a (p1 - p0) + b (r1 - r0)) for places first <= k < last. */
static void add(double *restrict x, Row m, double number, double a, Row p1, Row p0, double b,
                Row r1, Row r0, long first, long last)
{
    if (m)
        for (long k = first; k < last; k++)
            x[k] += m[k] * (a * (p1[k] - p0[k]) + b * (r1[k] - r0[k]));
    else {
        a *= number;
        b *= number;
        for (long k = first; k < last; k++)
            x[k] += a * (p1[k] - p0[k]) + b * (r1[k] - r0[k]);
    }
}

static inline void add_one(double *x, Row m, double number, double a, double p, double b, double r,
                           long k)
{
    if (m)
        x[k] += m[k] * (a * p + b * r);
    else
        x[k] += a * number * p + b * number * r;
}

static void remember(const Block *b, const double *x, int first, int last)
{
    for (int t = first; t < last; t++)
        b->old[t - first] = x[b->place[t]];
}

/* One or two kicks with nothing between them; two are not one where there is damping. */
typedef struct {
    int drift, leads, kicks;
    double h[2];
    const double *amplitude[2];
} Step;

static inline double length(const Step *s) { return s->kicks > 1 ? s->h[0] + s->h[1] : s->h[0]; }

/* x was advanced without them: now with loads and damping, by the midpoint rule. */
static void correct(Grid *g, const Block *b, double *x, int first, int last, const Step *s)
{
    double part[2], work = 0.0, outflow = 0.0;
    for (int n = 0; n < s->kicks; n++)
        part[n] = s->h[n] / length(s);
    for (int t = first; t < last; t++) {
        double *y = x + b->place[t], before = b->old[t - first], change = *y - before;
        for (int n = 0; n < s->kicks; n++) {
            double f = 0.0, h = s->h[n], now = before + part[n] * change;
            for (int l = 0; l < g->amplitudes; l++)
                f += s->amplitude[n][l] * b->load[(long)t * g->amplitudes + l];
            if (b->damping) {
                double a = 0.5 * h * b->damping[t];
                now += (h * f - a * (now + before)) * b->inverse_mass[t] /
                       (1.0 + a * b->inverse_mass[t]);
                double middle = 0.5 * (now + before);
                outflow += 2.0 * a * middle * middle;
            } else
                now += h * f * b->inverse_mass[t];
            work += h * f * (0.5 * (now + before));
            before = now;
        }
        *y = before;
    }
    g->work += work;
    g->outflow += outflow;
}

/* v += -h/eps curl' q for one row of component c. */
static void kick_row(Grid *g, int c, long i, long j, const Step *s)
{
    double h = length(s);
    Block *b = &g->half[0][c];
    double f0 = c == 0 ? 1.0 : side(g, 0, i, b->planes);
    double f1 = c == 1 ? 1.0 : side(g, 1, j, b->rows);
    if (f0 == 0.0 || f1 == 0.0)
        return;
    double *x = b->x + (i * b->rows + j) * b->length;
    Row m = g->unit || !b->inverse ? 0 : b->inverse + (x - b->x);
    double number = g->unit ? 1.0 : b->number;
    double s0 = -h * g->rate[0] * f0, s1 = -h * g->rate[1] * f1, s2 = -h * g->rate[2];
    long n = b->length, first = 0, last = 0;
    int touched = b->start && !g->unit;
    if (touched) {
        first = b->start[i * b->rows + j];
        last = b->start[i * b->rows + j + 1];
        remember(b, x, first, last);
    }
    if (c == 2)
        add(x, m, number, s0, row(g, 1, 1, i, j), row(g, 1, 1, i - 1, j), -s1,
            row(g, 1, 0, i, j), row(g, 1, 0, i, j - 1), 0, n);
    else {
        /* c = 0: d1 q2 - d2 q1;  c = 1: d2 q0 - d0 q2 */
        double a = c == 0 ? s1 : -s0, d = c == 0 ? -s2 : s2;
        Row p1 = row(g, 1, 2, i, j), p0 = c == 0 ? row(g, 1, 2, i, j - 1) : row(g, 1, 2, i - 1, j);
        Row r = row(g, 1, 1 - c, i, j);
        static const double factor[3] = {1.0, 2.0, 0.0};
        double f = factor[g->end[2][0]];
        if (f != 0.0)
            add_one(x, m, number, a, p1[0] - p0[0], f * d, r[0] - (g->periodic ? r[n - 1] : 0.0),
                    0);
        add(x, m, number, a, p1, p0, d, r, r - 1, 1, g->periodic ? n : n - 1);
        f = factor[g->end[2][1]];
        if (!g->periodic && f != 0.0)
            add_one(x, m, number, a, p1[n - 1] - p0[n - 1], f * d, -r[n - 2], n - 1);
    }
    if (touched)
        correct(g, b, x, first, last, s);
}

/* q += h/mu curl v for one row of component c. */
static void drift_row(Grid *g, int c, long i, long j, double h)
{
    Block *b = &g->half[1][c];
    double *x = b->x + (i * b->rows + j) * b->length;
    Row m = g->unit || !b->inverse ? 0 : b->inverse + (x - b->x);
    double number = g->unit ? 1.0 : b->number;
    double s0 = h * g->rate[0], s1 = h * g->rate[1], s2 = h * g->rate[2];
    long n = b->length, low = g->end[2][0] == 2, high = g->end[2][1] == 2;
    if (c == 2) {
        add(x, m, number, s0, row(g, 0, 1, i + 1, j), row(g, 0, 1, i, j), -s1,
            row(g, 0, 0, i, j + 1), row(g, 0, 0, i, j), low, n - high);
        return;
    }
    /* c = 0: d1 v2 - d2 v1;  c = 1: d2 v0 - d0 v2 */
    double a = c == 0 ? s1 : -s0, d = c == 0 ? -s2 : s2;
    Row p0 = row(g, 0, 2, i, j), p1 = c == 0 ? row(g, 0, 2, i, j + 1) : row(g, 0, 2, i + 1, j);
    Row r = row(g, 0, 1 - c, i, j);
    long last = n - (g->periodic || high);
    add(x, m, number, a, p1, p0, d, r + 1, r, low, last);
    if (low)
        add_one(x, m, number, a, p1[0] - p0[0], d, high && n == 1 ? 0.0 : r[1], 0);
    if (last < n && last >= low)
        add_one(x, m, number, a, p1[last] - p0[last], d, (high ? 0.0 : r[0]) - r[last], last);
}

/* ---------------------------------------------------------------- sweeps */

/* The row (i + 1, j) is on its way from memory while row (i, j) is worked on: so many rows take
   turns that the processor does not see where they lead. */
static inline void prefetch(const Grid *g, int half, int c, long i, long j)
{
    const Block *b = &g->half[half][c];
    if (!b->x || i + 1 >= b->planes || j >= b->rows)
        return;
    const double *x = own(b, i + 1, j);
    for (long k = 0; k < b->length; k += 8)
        __builtin_prefetch(x + k, 1, 2);
}

/* Rows first <= j < last of plane i, as far as there are any. */
static void update(Grid *g, const Step *s, long i, long first, long last)
{
    for (int c = 0; c < 3; c++) {
        const Block *b = &g->half[s->drift][c];
        if (!b->x || i < 0 || i >= b->planes)
            continue;
        for (long j = first < 0 ? 0 : first; j < (last < b->rows ? last : b->rows); j++)
            if (s->drift)
                drift_row(g, c, i, j, s->h[0]);
            else {
                if (s->leads && g->ahead) {
                    prefetch(g, 0, c, i, j);
                    prefetch(g, 1, c, i, j);
                }
                kick_row(g, c, i, j, s);
            }
    }
}

static long most(const Grid *g, int rows)
{
    long n = 0;
    for (int half = 0; half < 2; half++)
        for (int c = 0; c < 3; c++) {
            const Block *b = &g->half[half][c];
            long m = rows ? b->rows : b->planes;
            if (b->x && m > n)
                n = m;
        }
    return n;
}

/* The planes or rows of the block that a sweep can treat up to its update u: it does not know what is
   beyond open sides after its first updates. A kick looks one place down, a drift one place up, so
   that with every two updates one place more has to wait on both sides. What waits finds its
   neighbours as it needs them, for these have waited, too. */
typedef struct {
    long low, high;
} Range;

static Range within(const Grid *g, int axis, int u, long n)
{
    int real = g->rate[axis] != 0.0;
    Range r = {0, n};
    if (real && !g->end[axis][0])
        r.low = 1 + u / 2 < n ? 1 + u / 2 : n;
    if (real && !g->end[axis][1])
        r.high = n - (u + 1) / 2 > r.low ? n - (u + 1) / 2 : r.low;
    return r;
}

/* All updates where nothing from beyond the block is needed, in tiles of rows. */
static void sweep(Grid *g, const Step *s, int count, long tile)
{
    long behind = count / 2, planes = most(g, 0), rows = most(g, 1);
    Range p[DEEPEST], r[DEEPEST];
    for (int u = 0; u < count; u++) {
        p[u] = within(g, 0, u, planes);
        r[u] = within(g, 1, u, rows);
    }
    for (long j = 0; j < rows + behind; j += tile)
        for (long i = 0; i < planes + behind; i++)
            for (int u = 0; u < count; u++) {
                long shift = (u + 1) / 2, first = j - shift, last = first + tile;
                if (i - shift >= p[u].low && i - shift < p[u].high)
                    update(g, s + u, i - shift, first > r[u].low ? first : r[u].low,
                           last < r[u].high ? last : r[u].high);
            }
}

/* What the sweep has left of update u, near open sides. */
static void rest(Grid *g, const Step *s, int u)
{
    long planes = most(g, 0), rows = most(g, 1);
    Range p = within(g, 0, u, planes), r = within(g, 1, u, rows);
    for (long i = 0; i < planes; i++)
        if (i < p.low || i >= p.high)
            update(g, s + u, i, 0, rows);
        else {
            update(g, s + u, i, 0, r.low);
            update(g, s + u, i, r.high, rows);
        }
}

/* ---------------------------------------------------------------- ranks */

static void start(Grid *g, int half)
{
    Exchange *e = &g->exchange[half];
    for (int n = 0; n < e->parcels; n++) {
        const Parcel *p = &e->parcel[n];
        const Block *b = &g->half[half][p->component];
        size_t bytes = b->length * sizeof(double);
        if (p->axis == 0) {
            long i = p->last ? b->planes - 1 : 0;
            memcpy(p->buffer, b->x + i * b->rows * b->length, b->rows * bytes);
        } else
            for (long i = 0; i < b->planes; i++) {
                long j = p->last ? b->rows - 1 : 0;
                memcpy(p->buffer + i * b->length, b->x + (i * b->rows + j) * b->length, bytes);
            }
    }
    if (e->requests)
        g->startall(e->requests, e->request);
}

static void finish(Grid *g, int half)
{
    Exchange *e = &g->exchange[half];
    if (e->requests)
        g->waitall(e->requests, e->request, e->status);
}

/* The step that begins with operation `at`: a drift, a kick, or two kicks that follow each other. */
static Step step_at(const Grid *g, long at, long count, const int *drift, const double *h,
                    const double *amplitude)
{
    Step s = {.drift = drift[at], .kicks = 1};
    if (!drift[at] && at + 1 < count && !drift[at + 1] && h[at] * h[at + 1] > 0.0)
        s.kicks = 2;
    for (int n = 0; n < s.kicks; n++) {
        s.h[n] = h[at + n];
        s.amplitude[n] = amplitude + (at + n) * g->amplitudes;
    }
    return s;
}

/* Kicks (0) and drifts (1) of lengths h; `depth` of them at most share a sweep. */
void march(Grid *g, long count, const int *drift, const double *h, const double *amplitude,
           int depth, long tile)
{
    Step steps[DEEPEST];
    int sent = 0; /* whether messages of q are on their way */
    g->work = g->outflow = 0.0;
    for (long n = 0; n < count;) {
        int taken = 0;
        long next = n, even = n; /* what comes after the steps taken, and after a number of pairs */
        for (; taken < depth && taken < DEEPEST && next < count; taken++) {
            if (drift[next] != taken % 2)
                break;
            steps[taken] = step_at(g, next, count, drift, h, amplitude);
            steps[taken].leads = !taken;
            next += steps[taken].kicks;
            if (taken % 2)
                even = next;
        }
        if (taken > 1) {
            taken -= taken % 2;
            n = even;
            int again = n < count && drift[n] == 0;
            if (!sent)
                start(g, 1);
            sweep(g, steps, taken, tile);
            for (int u = 0; u < taken; u++) {
                finish(g, 1 - steps[u].drift);
                rest(g, steps, u);
                if (u + 1 < taken || again)
                    start(g, steps[u].drift);
            }
            sent = again;
        } else {
            Step step = step_at(g, n, count, drift, h, amplitude);
            step.leads = 1;
            if (!sent)
                start(g, 1 - step.drift);
            finish(g, 1 - step.drift);
            for (long i = 0; i < most(g, 0); i++)
                update(g, &step, i, 0, most(g, 1));
            sent = 0;
            n += step.kicks;
        }
    }
}

/* Of the cache of the second or third level, in bytes, if the system knows. */
long cache(int level)
{
    return sysconf(level == 2 ? _SC_LEVEL2_CACHE_SIZE : _SC_LEVEL3_CACHE_SIZE);
}

/* The sum of w x², with the dual volumes of the ends and with 1/inverse or 1/number for weights. */
double energy(const Grid *g, int half)
{
    double total = 0.0;
    for (int c = 0; c < 3; c++) {
        const Block *b = &g->half[half][c];
        if (!b->x)
            continue;
        for (long i = 0; i < b->planes; i++)
            for (long j = 0; j < b->rows; j++) {
                Row x = own(b, i, j), m = b->inverse ? b->inverse + (x - b->x) : 0;
                double sums[8] = {0}, sum = 0.0, f = 1.0;
                long k = 0, n = b->length;
                for (; k + 8 <= n; k += 8)
                    for (int l = 0; l < 8; l++)
                        sums[l] += m ? x[k + l] * x[k + l] / m[k + l] : x[k + l] * x[k + l];
                for (; k < n; k++)
                    sums[0] += m ? x[k] * x[k] / m[k] : x[k] * x[k];
                for (int l = 0; l < 8; l++)
                    sum += sums[l];
                /* half of the first and the last number on walls; v: nodes but along c, q: at c */
                if ((half == 0) == (c != 2)) {
                    if (g->end[2][0])
                        sum -= 0.5 * (m ? x[0] * x[0] / m[0] : x[0] * x[0]);
                    if (g->end[2][1])
                        sum -= 0.5 * (m ? x[n - 1] * x[n - 1] / m[n - 1] : x[n - 1] * x[n - 1]);
                }
                if ((half == 0) == (c != 0))
                    f *= ((i == 0 && g->end[0][0]) || (i == b->planes - 1 && g->end[0][1])) ? 0.5
                                                                                         : 1.0;
                if ((half == 0) == (c != 1))
                    f *= ((j == 0 && g->end[1][0]) || (j == b->rows - 1 && g->end[1][1])) ? 0.5
                                                                                        : 1.0;
                total += f * (m ? sum : sum / b->number);
            }
    }
    return total;
}
