/* transforms.h - the transforms, one row each. A schedule is a list of lines, each a row's name and
 * what its pattern asks for.
 *
 * X(name, pattern, function, doc)
 *   pattern  l a loop, L one or more loops, m a memory, n a number >= 1, 2 "-> outer inner" and
 *            1 "-> name", d a dtype, s "reg" or "local" (all of these may be left out) */
X(split, "ln2", apply_split,
  "split i 16 -> io ii: i = 16*io + ii; where 16 may not divide the extent n, "
  "ii < min(16, n - 16*io)")
X(merge, "ll1", apply_merge,
  "merge i j -> m: two loops of which the inner is all the outer does become one")
X(swap, "ll", apply_swap,
  "swap i j: exchange two loops of which the inner is all the outer does")
X(pad, "ln", apply_pad,
  "pad i 16: the extent up to a multiple; past the end loads by i read 0 and stores to what "
  "outlives a trip are off")
X(peel, "l", apply_peel,
  "peel i: first the trips in which inner loops and accesses are never cut short, then the rest")
X(trim, "l", apply_trim,
  "trim i: only the trips in which a store is on, and to what somebody reads")
X(serial, "l", apply_serial, "serial i: one trip after the other")
X(par, "l", apply_par, "par i: trips of a root loop are work items of the launch")
X(vec, "l", apply_vec, "vec i: all trips at once, as lanes of vectors")
X(unroll, "l", apply_unroll, "unroll i: the body repeated, i a constant in each")
X(thread, "l", apply_thread, "thread i: trips run at once by the members of a work group")
X(word, "l", apply_word,
  "word i: 2 or 4 trips are the parts of words of 32 bits, copied or multiplied word by word")
X(nontemporal, "m", apply_nontemporal,
  "nontemporal a0: what is written to a0, and never read here, goes past the caches where it can")
X(prefetch_distance, "mn", apply_prefetch_distance,
  "prefetch_distance a0 4096: each load of a0 asks for what is so many bytes on, as memory streams")
X(accumulate, "ml", apply_accumulate,
  "accumulate t0 i: t0, defined in i, gets an element for each trip of i, and i moves inside the "
  "loops that t0 lives through")
X(rfactor, "ml", apply_rfactor,
  "rfactor t0 r: each trip of r updates an element of its own of a wider tile, combined after "
  "the reduction")
X(tree_reduce, "l", apply_tree_reduce,
  "tree_reduce r: where r updates something by each element of a tile, pairs of elements are "
  "combined first, in halves, so that members of a group can share the work")
X(offset, "mml", apply_offset,
  "offset t0 t1 i: t0 sums products with t1, which gets 128 added and the other sign; what that "
  "adds, the sum of the other factors, is summed at the top of i's body and taken off")
X(block_reduction, "mll", apply_block_reduction,
  "block_reduction t0 k i: k's blocks of a sum outside of i, t0's partial sums wait in a tile of "
  "memory")
X(privatize, "l", apply_privatize,
  "privatize i: what i's trips add to one element they add to a tile, which is added to it once")
X(spill, "ml", apply_spill,
  "spill t0 i: i reads t0, of which it only reads, from a copy in memory made in front of it")
X(hoist, "l", apply_hoist,
  "hoist i: what costs something and no trip of i changes is computed once, into a tile")
X(prefetch_next, "ll", apply_prefetch_next,
  "prefetch_next i j: j's trips ask for what i's, the next time round, will copy from memory; "
  "j may be i")
X(prefetch_nest, "mll", apply_prefetch_nest,
  "prefetch_nest a0 i j: i's trips ask for the lines of a0 that j, a loop behind, will touch, "
  "each for its share")
X(prefetch_trip, "mln", apply_prefetch_trip,
  "prefetch_trip t0 i 8: i's trips ask for what the 8th next will load of t0")
X(transpose, "ll", apply_transpose,
  "transpose i j: what the two loops copy goes through a tile, to be stored the other way round")
X(fission, "l", apply_fission,
  "fission i: a loop of its own for each statement of i's body")
X(fuse, "ll", apply_fuse,
  "fuse i j: two loops of as many trips, j behind i, become one; what is between waits or is done "
  "before")
X(shift, "ll", apply_shift,
  "shift i j: what i's body does in front of j is done for the next trip at the end of each")
X(fold_storage, "ml", apply_fold_storage,
  "fold_storage t0 i: t0, of which each trip of i has elements of its own, is defined anew in each")
X(transform_layout, "mn", apply_layout,
  "transform_layout t0 n: t0's n rows become n columns: element e moves to "
  "(e mod c) * n + e div c, c = size / n")
X(stage, "mlLds", apply_stage,
  "stage a0 i j k: at the top of i's body copy what j and k will load from a0 into a tile indexed "
  "by (j, k); stage a0 i j + k: by their sum, one copy of what several pairs load; stage a0 i j k "
  "f32: converted, as each of these loads is")
