/* checked.c - arithmetic on numbers that come from outside: sizes, places, counts.
 *
 * A user may give any 64-bit number. What goes beyond the range stays at its end (sat_*), where the
 * check that every size and place meets afterwards refuses it, or is said to be beyond
 * (checked_bytes). Nothing here overflows. */
#include "base/base.h"

int64_t sat_add(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? (b < 0 ? INT64_MIN : INT64_MAX) : r;
}

int64_t sat_sub(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_sub_overflow(a, b, &r) ? (b < 0 ? INT64_MAX : INT64_MIN) : r;
}

int64_t sat_mul(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : r;
}

int64_t sat_neg(int64_t a) {
    return sat_sub(0, a);
}

bool checked_bytes(int rank, const int64_t *size, size_t width, size_t *out) {
    int64_t bytes = (int64_t)width;
    bool none = false, over = false;
    for (int i = 0; i < rank; i++) {
        none |= size[i] == 0;
        over |= size[i] < 0 || __builtin_mul_overflow(bytes, size[i], &bytes);
    }
    *out = none ? 0 : (size_t)bytes;
    return none || !over;
}
