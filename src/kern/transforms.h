/* transforms.h - the transforms, one row each. A schedule is a list of lines, each a row's name and
 * what its pattern asks for.
 *
 * X(name, pattern, function, doc)
 *   pattern  l a loop, L one or more loops, m a memory, n a number >= 1, 2 "-> outer inner" and
 *            1 "-> name", d a dtype, s "reg" or "local" (all of these may be left out) */
X(split, "ln2", transform_split,
  "split i 16 -> io ii: i = 16*io + ii; where 16 may not divide the extent n, "
  "ii < min(16, n - 16*io)")
X(merge, "ll1", transform_merge,
  "merge i j -> m: two loops of which the inner is all the outer does become one")
X(swap, "ll", transform_swap,
  "swap i j: exchange two loops of which the inner is all the outer does")
X(pad, "ln", transform_pad,
  "pad i 16: the extent up to a multiple; past the end loads by i read 0 and stores to what "
  "outlives a trip are off")
X(peel, "l", transform_peel,
  "peel i: first the trips in which inner loops and accesses are never cut short, then the rest")
X(clip, "l", transform_clip,
  "clip i: only the trips in which a store is on, and to what somebody reads")
X(serial, "l", transform_serial, "serial i: one trip after the other")
X(par, "l", transform_par, "par i: trips of a root loop are work items of the launch")
X(vec, "l", transform_vec, "vec i: all trips at once, as lanes of vectors")
X(unroll, "l", transform_unroll, "unroll i: the body repeated, i a constant in each")
X(thread, "l", transform_thread, "thread i: trips run at once by the members of a work group")
X(word, "l", transform_word,
  "word i: 2 or 4 trips are the parts of words of 32 bits, copied or multiplied word by word")
X(bypass, "m", transform_bypass,
  "bypass a0: what is written to a0, and never read here, goes past the caches where it can")
X(prefetch, "mn", transform_prefetch,
  "prefetch a0 4096: each load of a0 asks for what is so many bytes on, as memory streams")
X(tile, "ml", transform_tile,
  "tile t0 i: t0, defined in i, gets an element for each trip of i, and i moves inside the loops "
  "that t0 lives through")
X(multi_step, "ml", transform_multi_step,
  "multi_step t0 r: each trip of r updates an element of its own of a wider tile, combined after "
  "the reduction")
X(fold, "l", transform_fold,
  "fold r: where r updates something by each element of a tile, pairs of elements are combined "
  "first, in halves, so that members of a group can share the work")
X(offset, "mml", transform_offset,
  "offset t0 t1 i: t0 sums products with t1, which gets 128 added and the other sign; what that "
  "adds, the sum of the other factors, is summed at the top of i's body and taken off")
X(carry, "mll", transform_carry,
  "carry t0 k i: k's blocks of a sum outside of i, t0's partial sums wait in a tile of memory")
X(collect, "l", transform_collect,
  "collect i: what i's trips add to one element they add to a tile, which is added to it once")
X(park, "ml", transform_park,
  "park t0 i: i reads t0, of which it only reads, from a copy in memory made in front of it")
X(ahead, "l", transform_ahead,
  "ahead i: what costs something and no trip of i changes is computed once, into a tile")
X(fetch, "ll", transform_fetch,
  "fetch i j: j's trips ask for what i's, the next time round, will copy from memory; j may be i")
X(ask, "mll", transform_ask,
  "ask a0 i j: i's trips ask for the lines of a0 that j, a loop behind, will touch, each for its "
  "share")
X(near, "mln", transform_near,
  "near t0 i 8: i's trips ask for what the 8th next will load of t0")
X(turn, "ll", transform_turn,
  "turn i j: what the two loops copy goes through a tile, to be stored the other way round")
X(fission, "l", transform_fission,
  "fission i: a loop of its own for each statement of i's body")
X(fuse, "ll", transform_fuse,
  "fuse i j: two loops of as many trips, j behind i, become one; what is between waits or is done "
  "before")
X(rotate, "ll", transform_rotate,
  "rotate i j: what i's body does in front of j is done for the next trip at the end of each")
X(confine, "ml", transform_confine,
  "confine t0 i: t0, of which each trip of i has elements of its own, is defined anew in each")
X(lay, "mn", transform_lay,
  "lay t0 n: t0's n rows become n columns: element e moves to (e mod c) * n + e div c, "
  "c = size / n")
X(stage, "mlLds", transform_stage,
  "stage a0 i j k: at the top of i's body copy what j and k will load from a0 into a tile indexed "
  "by (j, k); stage a0 i j + k: by their sum, one copy of what several pairs load; stage a0 i j k "
  "f32: converted, as each of these loads is")
