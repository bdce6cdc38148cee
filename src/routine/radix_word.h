/* radix_word.h - sorting words of one width: included by radix.c for each, with WORD their type and
 * OF(name) the name that a function of that width has. See radix.c. */

static void OF(insert)(WORD *a, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        WORD v = a[i];
        int64_t k = i;
        for (; k > 0 && v < a[k - 1]; k--) a[k] = a[k - 1];
        a[k] = v;
    }
}

/* Two sorted runs to one. Which comes next is random, so no branch depends on it. */
static void OF(merge)(const WORD *a, int64_t n, const WORD *b, int64_t m, WORD *out) {
    const WORD *a_end = a + n, *b_end = b + m;
    while (a < a_end && b < b_end) {
        bool second = *b < *a;
        *out++ = second ? *b : *a;
        a += !second;
        b += second;
    }
    while (a < a_end) *out++ = *a++;
    while (b < b_end) *out++ = *b++;
}

static void OF(merge_sort)(WORD *a, WORD *spare, int64_t n) {
    WORD *from = a, *to = spare;
    for (int64_t i = 0; i < n; i += RUN) OF(insert)(a + i, n - i < RUN ? n - i : RUN);
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            int64_t left = n - i < run ? n - i : run;
            int64_t right = n - i - left < run ? n - i - left : run;
            OF(merge)(from + i, left, from + i + left, right, to + i);
        }
        WORD *was = from;
        from = to;
        to = was;
    }
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

static inline uint32_t OF(digit)(WORD w, int shift, uint32_t mask) {
    return (uint32_t)(w >> shift) & mask;
}

/* How often each digit occurs. */
static void OF(count_one)(const WORD *a, int64_t n, int shift, int digit, uint32_t *count) {
    const uint32_t mask = (1u << digit) - 1;
    memset(count, 0, sizeof *count << digit);
    for (int64_t i = 0; i < n; i++) count[OF(digit)(a[i], shift, mask)]++;
}

/* Of three in one pass; of a third that the word does not have nobody asks. */
static void OF(count_three)(const WORD *a, int64_t n, int shift, int digit, uint32_t *count) {
    const uint32_t mask = (1u << digit) - 1;
    uint32_t *second = count + (1u << digit), *third = second + (1u << digit);
    int last = shift + 2 * digit;
    if (last >= (int)sizeof(WORD) * 8) last = shift;
    memset(count, 0, 3 * sizeof *count << digit);
    for (int64_t i = 0; i < n; i++) {
        WORD w = a[i];
        count[OF(digit)(w, shift, mask)]++;
        second[OF(digit)(w, shift + digit, mask)]++;
        third[OF(digit)(w, last, mask)]++;
    }
}

/* `count` becomes where each digit's words end. */
static void OF(scatter)(const WORD *a, int64_t n, int shift, int digit, uint32_t *count, WORD *to) {
    const uint32_t mask = (1u << digit) - 1;
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= mask; i++) {
        uint32_t many = count[i];
        count[i] = sum;
        sum += many;
    }
    for (int64_t i = 0; i < n; i++) {
        WORD w = a[i];
        to[count[OF(digit)(w, shift, mask)]++] = w;
    }
}

/* The lowest digit first. */
static void OF(sort_digits)(WORD *a, WORD *spare, int64_t n, int low, int high) {
    uint32_t count[3 << DIGIT];
    int digit = n < MANY ? SMALL_DIGIT : DIGIT;
    WORD *from = a, *to = spare;
    for (int shift = low, d = 0; shift < high; shift += digit, d = (d + 1) % 3) {
        uint32_t *at = count + ((size_t)d << digit);
        if (d == 0 && shift + digit < high) OF(count_three)(from, n, shift, digit, count);
        if (d == 0 && shift + digit >= high) OF(count_one)(from, n, shift, digit, count);
        if (at[OF(digit)(from[0], shift, (1u << digit) - 1)] == n) continue; /* all have it */
        OF(scatter)(from, n, shift, digit, at, to);
        WORD *was = from;
        from = to;
        to = was;
    }
    if (from != a) memcpy(a, from, (size_t)n * sizeof *a);
}

/* Too many for the caches: by the highest digit into parts that they hold. */
static void OF(sort_parts)(WORD *a, WORD *spare, int64_t n, int low, int high) {
    uint32_t end[1 << DIGIT], from = 0;
    OF(count_one)(a, n, high - DIGIT, DIGIT, end);
    OF(scatter)(a, n, high - DIGIT, DIGIT, end, spare);
    for (int i = 0; i < 1 << DIGIT; from = end[i++]) {
        int64_t m = end[i] - from;
        OF(radix_sort)(spare + from, a + from, m, low, high - DIGIT);
        memcpy(a + from, spare + from, (size_t)m * sizeof *a);
    }
}

void OF(radix_sort)(WORD *a, WORD *spare, int64_t n, int low, int high) {
    if (n <= FEW * ((high - low) / SMALL_DIGIT + 1) || n > UINT32_MAX)
        OF(merge_sort)(a, spare, n);
    else if ((size_t)n * sizeof *a > CACHED && high - low > DIGIT)
        OF(sort_parts)(a, spare, n, low, high);
    else
        OF(sort_digits)(a, spare, n, low, high);
}
