/* quick.h - quicksort of words of 32 bits by vectors: included by quick8.c and quick16.c, which say
 * TARGET, the width LANES of their vectors, SORT, the name of the whole, and
 *
 *     BASE       words that sort_base(from, to, n) puts in order in registers, at most,
 *     middle     the ninth of sixteen words in order,
 *     divided    how many words of n, more than BASE, lie below a pivot. Those are in front then,
 *                the others behind them; APART: at the same places of the spare array,
 *     MANY_WORDS beyond which up to MOST_WORDS are first divided by digits, in rows of at most
 *     MOST_ROW.
 *
 * Two arrays take turns: a run lies in one of them, `a`, and nobody else uses the same places of
 * the other, `b`. Sorted it is to lie in a, or if `over` is set in b, and what is stored there last
 * is a run from registers: so words that are put apart need no copying.
 *
 * Words that are equal to a pivot that is the least are done. Where pivots are bad so often that
 * the depth runs out, the run is left to sorting by digits: no input takes quadratic time. */

enum { SAMPLE = 16 };

typedef struct run {
    uint32_t *a, *b;
    int64_t n;
    bool over;
} run;

static run run_part(run r, int64_t from, int64_t n) {
    return (run){r.a + from, r.b + from, n, r.over};
}

/* Words that are in order where they are. */
static void run_done(run r) {
    if (r.over) memcpy(r.b, r.a, (size_t)r.n * sizeof *r.a);
}

/* The middle of words at equal distances. */
TARGET static uint32_t pivot_of(const uint32_t *a, int64_t n) {
    uint32_t word[SAMPLE];
    for (int64_t i = 0; i < SAMPLE; i++) word[i] = a[(2 * i + 1) * (n / (2 * SAMPLE))];
    return middle(word);
}

static int depth_for(int64_t n) {
    int depth = 4;
    for (int64_t m = n; m > BASE; m /= 2) depth += 2;
    return depth;
}

static void by_parts(run r);

/* parts: rows of a certain size may first be divided by digits. */
TARGET static void quick(run r, int depth, bool parts) {
    while (r.n > BASE) {
        if (parts && r.n > MANY_WORDS && r.n <= MOST_WORDS) {
            by_parts(r);
            return;
        }
        if (!depth--) {
            radix_sort32(r.a, r.b, r.n, 0, 32);
            run_done(r);
            return;
        }
        uint32_t pivot = pivot_of(r.a, r.n);
        int64_t below = divided(r.a, r.b, r.n, pivot);
        run left = run_part(r, 0, below), right = run_part(r, below, r.n - below);
        if (APART) right = (run){right.b, right.a, right.n, !right.over};
        if (below == 0) { /* the pivot is the least: those that equal it are done */
            int64_t equal =
                pivot == UINT32_MAX ? right.n : divided(right.a, right.b, right.n, pivot + 1);
            run_done(run_part(right, 0, equal));
            r = run_part(right, equal, right.n - equal);
            if (APART && pivot != UINT32_MAX) r = (run){r.b, r.a, r.n, !r.over};
            continue;
        }
        bool first = left.n <= right.n; /* the shorter part first */
        quick(first ? left : right, depth, parts);
        r = first ? right : left;
    }
    sort_base(r.a, r.over ? r.b : r.a, r.n);
}

/* More words than the nearer caches hold: one pass by their highest bits makes parts that they do.
 * Beyond some millions its streams are too far apart, and dividing at pivots comes first. */
static void by_parts(run r) {
    enum { BITS = 11 };
    uint32_t end[1 << BITS] = {0}, from = 0;
    for (int64_t i = 0; i < r.n; i++) end[r.a[i] >> (32 - BITS)]++;
    for (int i = 0; i < 1 << BITS; i++) {
        uint32_t many = end[i];
        end[i] = from;
        from += many;
    }
    for (int64_t i = 0; i < r.n; i++) r.b[end[r.a[i] >> (32 - BITS)]++] = r.a[i];
    from = 0;
    for (int i = 0; i < 1 << BITS; from = end[i++]) {
        int64_t n = end[i] - from;
        quick((run){r.b + from, r.a + from, n, !r.over}, depth_for(n), false);
    }
}

void SORT(uint32_t *a, uint32_t *spare, int64_t n) {
    quick((run){a, spare, n, false}, depth_for(n), n <= MOST_ROW);
}
