/* order.h - elements as integers in the same order, and integers put in order. */
#ifndef QN_ROUTINE_ORDER_H
#define QN_ROUTINE_ORDER_H

#include "routine/routine.h"

/* ---- order.c: numbers as integers in the same order ------------------------------------------ */

/* Element i of an array as an unsigned integer of its width: these compare as the elements do, -0
 * and 0 being equal, and all NaN equal and the largest. */
ROUTINE_LINK uint64_t order_key(qn_dtype dtype, const void *data, int64_t i);
ROUTINE_LINK int order_bits(qn_dtype dtype); /* of such a key */
/* n keys; `flip` is exclusive-ored to each: all ones turn the order around. Do all of them say
 * which element it was, bit by bit? And the elements of such keys. */
ROUTINE_LINK bool order_keys32(qn_dtype dtype, const void *data, int64_t n, uint32_t flip,
                               uint32_t *out);
ROUTINE_LINK bool order_keys64(qn_dtype dtype, const void *data, int64_t n, uint64_t flip,
                               uint64_t *out);
ROUTINE_LINK void order_values32(qn_dtype dtype, const uint32_t *key, int64_t n, uint32_t flip,
                                 void *out);
ROUTINE_LINK void order_values64(qn_dtype dtype, const uint64_t *key, int64_t n, uint64_t flip,
                                 void *out);

/* ---- radix.c: sorting integers --------------------------------------------------------------- */

__extension__ typedef unsigned __int128 uint128;

/* Sort n words by their bits from `low` up to `high`; equal ones stay in their order. `spare` has
 * room for n, too. */
ROUTINE_LINK void radix_sort32(uint32_t *a, uint32_t *spare, int64_t n, int low, int high);
ROUTINE_LINK void radix_sort64(uint64_t *a, uint64_t *spare, int64_t n, int low, int high);
ROUTINE_LINK void radix_sort128(uint128 *a, uint128 *spare, int64_t n, int low, int high);
/* The same of all 32 bits; false: not here, nothing was done (quick.c). And by vectors of 8 or 16
 * words alone: only on x86-64, where the processor has them. */
ROUTINE_LINK bool quick_sort32(uint32_t *a, uint32_t *spare, int64_t n);
ROUTINE_LINK bool quick_has32(int lanes);
#ifndef ROUTINE_ALONE
void quick_sort32_by8(uint32_t *a, uint32_t *spare, int64_t n);
void quick_sort32_by16(uint32_t *a, uint32_t *spare, int64_t n);
#endif
/* Bring the k that come first in that order to the front, themselves in no order. */
ROUTINE_LINK void radix_select64(uint64_t *a, uint64_t *spare, int64_t n, int64_t k, int low,
                                 int high);
ROUTINE_LINK void radix_select128(uint128 *a, uint128 *spare, int64_t n, int64_t k, int low,
                                  int high);

#endif
