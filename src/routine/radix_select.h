/* radix_select.h - the first k words in order, for radix.c: see radix_word.h. */

/* Digit by digit from the highest on: words below the digit of the k-th are among the first k,
 * those above are not, and only those with that digit go on. */
void OF(radix_select)(WORD *a, WORD *spare, int64_t n, int64_t k, int low, int high) {
    int64_t count[1 << SMALL_DIGIT], done = 0, m = n;
    const uint32_t mask = (1u << SMALL_DIGIT) - 1;
    const WORD *from = a;
    for (int shift = high - SMALL_DIGIT; k < n && k > done && m > 1 && shift >= low;
         shift -= SMALL_DIGIT) {
        memset(count, 0, sizeof count);
        for (int64_t i = 0; i < m; i++) count[OF(digit)(from[i], shift, mask)]++;
        uint32_t pivot = 0;
        for (int64_t sum = done; (sum += count[pivot]) < k;) pivot++;
        int64_t left = 0;
        for (int64_t i = 0; i < m; i++) {
            WORD w = from[i];
            uint32_t d = OF(digit)(w, shift, mask);
            a[done] = w;
            done += d < pivot;
            spare[left] = w;
            left += d == pivot;
        }
        from = spare;
        m = left;
    }
    if (k < n && from == spare) memcpy(a + done, spare, (size_t)(k - done) * sizeof *a);
}
