/* transforms.h - the transforms, one row each. A schedule is a list of lines: a row's name and the
 * arguments of its pattern. docs/transforms.md shows each at work.
 *
 * X(name, pattern, function, effect, makes, doc)
 *   effect   what it changes, for those who make schedules up, search and fuzzers: NEST loops, TILE
 *            memories, RUN how a loop runs, HINT only what is prefetched; FAR what others gain or
 *            lose by, which a kernel measured alone does not show
 *   pattern  l a loop, L one or more loops, m a memory, n a number >= 1, 2 "-> outer inner" and
 *            1 "-> name", d a dtype, s "reg" or "local" (all of these may be left out)
 *   makes    what it makes and reports (transform_made), a word a role: "tile", then loops. One
 *            that ends in "?" may be missing; of one in ".." there are any number, in the order of
 *            the tree. Of several tiles the first is reported, or that made of the tile that was
 *            named; copies of what stands inside a loop are not reported */
X(split, "ln2", apply_split, NEST, "outer inner",
  "split i 16 -> io ii: i = 16*io + ii; ii < min(16, n - 16*io) where 16 may not divide the "
  "extent n")
X(merge, "ll1", apply_merge, NEST, "merged",
  "merge i j -> m: two perfectly nested loops become one")
X(swap, "ll", apply_swap, NEST, "",
  "swap i j: interchange two perfectly nested loops")
X(pad, "ln", apply_pad, NEST, "",
  "pad i 16: round the extent up to a multiple; in the added iterations loads by i read 0 and "
  "stores to what outlives an iteration are masked off")
X(peel, "l", apply_peel, NEST, "rest",
  "peel i: the iterations in which nothing is masked or cut short get a loop of their own")
X(align, "lmn", apply_align, NEST, "before after",
  "align i a0 16: the iterations that store whole lines of 16 elements to a0, at multiples of it, "
  "and those before and after them get a loop each")
X(trim, "l", apply_trim, NEST, "",
  "trim i: keep the iterations in which a store is unmasked and its value is read")
X(serial, "l", apply_serial, RUN, "", "serial i: one iteration after the other")
X(par, "l", apply_par, RUN, "",
  "par i: the iterations of a root loop are the work items of the launch")
X(vec, "l", apply_vec, RUN, "", "vec i: the iterations are the lanes of vectors")
X(unroll, "l", apply_unroll, RUN, "", "unroll i: repeat the body, i a constant in each copy")
X(thread, "l", apply_thread, RUN, "", "thread i: the members of a work-group share the iterations")
X(word, "l", apply_word, RUN, "",
  "word i: 2 or 4 iterations are the parts of 32-bit words, copied or multiplied (dot "
  "instructions) a word at a time")
X(nontemporal, "m", apply_nontemporal, FAR, "",
  "nontemporal a0: stores to a0, which is not read here, bypass the caches where the device can")
X(prefetch_distance, "mn", apply_prefetch_distance, HINT, "",
  "prefetch_distance a0 4096: each load or store of a0 also prefetches the line so many bytes "
  "ahead")
X(accumulate, "ml", apply_accumulate, TILE, "others..",
  "accumulate t0 i: give t0, an accumulator defined in i, an element for each iteration of i, "
  "and move i inside the reductions that t0 lives through: a register tile")
X(accumulate_through, "ml", apply_accumulate_through, TILE, "others..",
  "accumulate_through t0 i: as accumulate, but i also moves inside reductions that define tiles, "
  "around all of their bodies")
X(rfactor, "ml", apply_rfactor, TILE, "tile part element?",
  "rfactor t0 r: each iteration of r updates its own element of a wider tile; the elements are "
  "combined after the reduction")
X(tree_reduce, "l", apply_tree_reduce, TILE, "halves..",
  "tree_reduce r: combine the elements of a tile in halves, pair by pair, so that the members "
  "of a work-group can share each step")
X(offset, "mml", apply_offset, TILE, "tile",
  "offset t0 t1 i: change the signedness of t1, a packed operand of t0's sum of products, by "
  "adding 128, as dot instructions of unsigned by signed bytes want it; 128 times the sums of "
  "the other operand is computed at the top of i's body and subtracted")
X(block_reduction, "mll", apply_block_reduction, TILE, "tile load? store? last?",
  "block_reduction t0 k i: move k, the loop over blocks of a reduction (pc), outside of i; t0's "
  "partial sums stay in a tile in memory between blocks")
X(privatize, "l", apply_privatize, TILE, "tile",
  "privatize i: what i's iterations add to one element they add to a private accumulator first")
X(spill, "ml", apply_spill, TILE, "tile copy",
  "spill t0 i: i reads t0, which it does not store to, from a copy in memory made in front of "
  "it")
X(hoist, "l", apply_hoist, TILE, "tile",
  "hoist i: compute expensive loop-invariant values once, in front of i, into a tile")
X(compute_at, "lL", apply_compute_at, TILE, "tile axes..",
  "compute_at i j k: at the top of i's body compute what i needs that depends, of the loops "
  "inside, on j and k alone and costs more than a few operations, into tiles indexed by (j, k)")
X(prefetch_next, "ll", apply_prefetch_next, HINT, "",
  "prefetch_next i j: j's iterations prefetch what i loads in the next iteration of the loop "
  "around both; j may be i")
X(prefetch_nest, "mll", apply_prefetch_nest, HINT, "",
  "prefetch_nest a0 i j: i's iterations prefetch, in equal shares, the lines of a0 that the "
  "later nest j accesses")
X(prefetch_trip, "mln", apply_prefetch_trip, HINT, "",
  "prefetch_trip t0 i 8: each iteration of i prefetches what it will load of t0 8 iterations "
  "later")
X(transpose, "ll", apply_transpose, TILE, "tile outer inner",
  "transpose i j: copy through a register tile that is stored in the other order of the loops")
X(fission, "l", apply_fission, NEST, "others..",
  "fission i: distribute i over the statements of its body, a loop for each")
X(fuse, "ll", apply_fuse, NEST, "",
  "fuse i j: two loops of the same extent, j behind i, become one; what stands between them "
  "moves in front of it or behind it")
X(online, "mll", apply_online, NEST, "rows..",
  "online t0 i j: fuse j, which sums exponentials of differences to the maximum t0, with i, which "
  "finds it; the sums are rescaled when t0 grows (online softmax)")
X(shift, "ll", apply_shift, NEST, "",
  "shift i j: run the part of i's body in front of j one iteration early, at the end of the "
  "iteration before (software pipelining)")
X(fold_storage, "ml", apply_fold_storage, TILE, "",
  "fold_storage t0 i: t0, of which each iteration of i has its own elements, shrinks to the "
  "elements of one and is defined in each iteration")
X(transform_layout, "mn", apply_layout, TILE, "",
  "transform_layout t0 n: transpose t0 in its storage: n rows become n columns, element e moves "
  "to (e mod c) * n + e div c, c = size / n")
X(stage, "mlLds", apply_stage, TILE, "tile axes..",
  "stage a0 i j k: at the top of i's body copy what the loops j and k load from a0 into a tile "
  "indexed by (j, k) (packing); stage a0 i j + k: indexed by their sum, one copy of what "
  "overlapping windows load; stage a0 i j k f32: converted to f32, as each of these loads is")
