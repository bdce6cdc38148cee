/* radix.c - sorting words by their digits, the lowest first (LSD radix sort).
 *
 * A pass puts the words where the number of smaller digits says, in their order; after the last
 * digit they are sorted, and equal ones as they came. A digit that all words have in common is left
 * out, as it is for small integers. Digits of 11 bits: a pass writes 2048 streams, whose lines lie
 * in more different sets of the caches than those of 256 do. More words than the caches hold are
 * first put into 2048 parts by their highest digit. Fewer than counting is worth are sorted by
 * insertion in short runs, and these merged; then whole words are compared, so that what is below
 * `low` must be in ascending order where bits above are equal. */
#include "routine/order.h"

enum { DIGIT = 11, SMALL_DIGIT = 8, RUN = 12, FEW = 64, MANY = 1 << 12, CACHED = 4 << 20 };

#define WORD     uint32_t
#define OF(name) name##32
#include "routine/radix_word.h"
#undef WORD
#undef OF

#define WORD     uint64_t
#define OF(name) name##64
#include "routine/radix_word.h"

#include "routine/radix_select.h"
#undef WORD
#undef OF

#define WORD     uint128
#define OF(name) name##128
#include "routine/radix_word.h"

#include "routine/radix_select.h"
#undef WORD
#undef OF
