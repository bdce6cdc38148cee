/* fields.h - the quantities of a machine record, one row each.
 *
 * X(name, kind, least, most, usual, doc)   What belongs to the device at hand, threads, work groups
 * and dot instructions, comes from the device. A row of families.h, a file or a measurement says
 * what differs from the usual value. Thresholds that follow from several fields are functions of
 * machine.h.
 *
 * kind   FACT  follows from the processor's model; the grouping of float sums may depend on it
 *        RATE  may be measured: it may say who computes an element, when, and from which copy, but
 *              never the order in which the terms of a sum are added. So measuring changes no bit
 */

/* ---- vectors --------------------------------------------------------------------------------- */

X(vector_bytes, FACT, 4, 256, 16, "bytes of a vector register")
X(registers, FACT, 1, 1024, 16, "vector registers")
X(accumulators, FACT, 1, 64, 8, "of a sum along a row: an addition's latency times its rate")
X(add_latency, FACT, 0, 1024, 0, "cycles from an addition to the next one of its chain; 0: unknown")
X(mul_latency, FACT, 0, 1024, 0, "the same of products")
X(div_latency, FACT, 0, 1024, 0, "the same of quotients of f32")
X(sqrt_latency, FACT, 0, 1024, 0, "the same of square roots of f32")
X(div_cycles, FACT, 0, 1024, 0, "cycles between quotients of vectors that do not wait; 0: unknown")
X(sqrt_cycles, FACT, 0, 1024, 0, "the same of square roots")
X(fma_latency, RATE, 1, 64, 4, "cycles from a multiply-add to the next one of its chain")
X(fma_rate, RATE, 1, 16, 2, "multiply-adds of vectors a cycle")
X(load_rate, RATE, 1, 16, 2, "loads of vectors a cycle")
X(store_rate, RATE, 1, 16, 1, "stores of vectors a cycle")
X(spill_cycles, RATE, 0, 64, 4, "to store a vector of partial sums, and to load it blocks later")
X(addition_cycles, RATE, 1, 6400, 60, "hundredths: of an addition, and what cannot go beside it")
X(across_cycles, RATE, 1, 1024, 12, "to combine the lanes of a vector")
X(clear_cycles, RATE, 1, 6400, 50, "hundredths: to set a vector of a tile")
X(mask_time, RATE, 100, 6400, 200, "percent: time of a masked access over that of a whole one")
X(gather_cycles, RATE, 1, 6400, 120, "hundredths: to load one lane by itself")
X(scatter_cycles, FACT, 1, 1024, 24, "to store a vector's lanes one by one")
X(address_registers, RATE, 1, 64, 10, "rows that can have a pointer each without spilling it")

/* ---- caches ---------------------------------------------------------------------------------- */

X(line, FACT, 16, 1024, 64, "bytes of a cache line")
X(page, FACT, 512, 1 << 24, 4096, "bytes at whose end the processor's own prefetching stops")
X(l1, FACT, 0, 1 << 24, 32 << 10, "bytes of the first data cache of a core; 0: unknown")
X(l1_sharers, FACT, 0, 1 << 16, 0, "hardware threads that have it in common; 0: unknown")
X(l1_latency, RATE, 0, 1 << 16, 0, "cycles from a load to its use; 0: unknown")
X(l1_ways, FACT, 1, 64, 8, "ways of it: lines that collide are its size / ways apart")
X(l1_usable, RATE, 1, 100, 75, "percent of it for an operand that is to stay")
X(l1_shared, RATE, 1, 100, 50, "percent of it for results that stay while operands pass")
X(l1_apart, RATE, 1, 1024, 16, "of it, one part of so many: columns' rows so far apart are streams")
X(l1_slice, FACT, 1, 1024, 3, "of it, one part of so many for what nests of rows pass on")
X(l2, FACT, 0, 1 << 28, 256 << 10, "bytes of the second cache of a core; 0: unknown")
X(l2_ways, FACT, 0, 1 << 16, 0, "ways of it; 0: unknown")
X(l2_sharers, FACT, 0, 1 << 16, 0, "hardware threads that have it in common; 0: unknown")
X(l2_latency, RATE, 0, 1 << 16, 0, "cycles of a load from it; 0: unknown")
X(l2_usable, RATE, 1, 100, 75, "percent of it for an operand that is to stay")
X(l2_shared, FACT, 1, 100, 50, "percent of it for what stays while other data pass")
X(l2_rows, RATE, 1, 1024, 8, "of it, one part of so many for rows along which tiles go first")
X(l2_ahead, RATE, 1, 1024, 4, "of it, one part of so many: larger operands are packed ahead")
X(l2_rate, RATE, 1, 1024, 20, "bytes a cycle that reach the registers from it")
X(l2_fill, RATE, 0, 64, 0, "cycles that loads wait for a line to come from it, besides")
X(l3, FACT, 0, 1LL << 36, 0, "bytes of the third cache; 0: unknown")
X(l3_ways, FACT, 0, 1 << 16, 0, "ways of it; 0: unknown")
X(l3_sharers, FACT, 0, 1 << 16, 0, "hardware threads that have it in common; 0: unknown")
X(l3_latency, RATE, 0, 1 << 16, 0, "cycles of a load from it; 0: unknown")
X(l3_part, FACT, 1 << 20, 1LL << 36, 32 << 20, "most of it that one program may count on")
X(l3_rate, RATE, 1, 1024, 16, "bytes a cycle from behind the second cache, of rows far apart")

/* ---- memory ---------------------------------------------------------------------------------- */

X(memory_from, FACT, 1, 1024, 4, "times the second cache: what is larger streams from memory")
X(memory_latency, RATE, 0, 1 << 16, 0, "cycles of a load from memory, any page; 0: unknown")
X(memory_rate, RATE, 1, 1024, 4, "bytes a cycle from memory, of one thread")
X(memory_ops, RATE, 1, 1024, 10, "operations an element, from which on memory would be idle")
X(streams, RATE, 1, 64, 12, "streams that a core's prefetcher follows at once")
X(page_parallel_gain, RATE, 1, 1000, 100,
  "percent: time of streams in order over that of pages of each side by side")
X(page_parallel_read_gain, RATE, 1, 1000, 100, "the same of one stream that is only read")
X(row_parallel_gain, RATE, 1, 1000, 150,
  "percent: time of rows of a sum, one after the other, over that of four side by side")
X(sum_parts, FACT, 1, 16, 4, "parts of a sum along a row that streams, each with accumulators")
X(open_lines, RATE, 1, 1024, 8, "lines that non-temporal stores may fill at a time")
X(nontemporal_gain, RATE, 1, 1000, 140, "percent: time of stores over that of non-temporal ones")
X(memory_threads, RATE, 1, 100, 70, "percent: time of traffic by all threads over that by one")

/* ---- threads --------------------------------------------------------------------------------- */

X(fork_join_ns, RATE, 1, 1 << 30, 2048, "from handing out work to another thread to its end")
X(ops_ns, RATE, 1, 64, 4, "operations of vectors of f32 a nanosecond, roughly")
X(clock_mhz, RATE, 1, 1 << 20, 4000, "cycles a microsecond")
X(level_forks, RATE, 1, 1024, 16, "times a fork and a join: work of a launch that runs by itself")
X(spread_forks, RATE, 1, 1024, 12, "times, likewise: work that leaves the cache that it lies in")
X(piece_part, RATE, 1, 1024, 8, "of a fork and a join, one part of so many: the least piece")
X(spin_ns, RATE, 0, 1 << 30, POOL_SPIN_NS, "that a thread without work looks for some before it sleeps")
X(item_cycles, RATE, 1, 1 << 20, 40, "of an item of parallel work, besides")

/* ---- products: BLIS's block sizes, and what packing takes ------------------------------------ */

X(mc, RATE, 1, 1 << 20, 384, "rows of a block, about")
X(kc_least, RATE, 1, 1 << 20, 128, "depth of a block, at least")
X(kc_uncached, RATE, 1, 1 << 20, 256,
  "the same where rows come unpacked from behind the second cache")
X(kc_multiple, RATE, 1, 1024, 16, "of which a block's depth is a multiple")
X(kc_share, RATE, 1, 100, 70, "percent of the first cache for a panel of columns")
X(nc_bytes, RATE, 4096, 1LL << 36, 4 << 20, "of packed columns, at most")
X(pack_uses, RATE, 1, 1024, 2, "uses of a panel of strided columns for which packing pays")
X(pack_uses_contiguous, RATE, 1, 1024, 8, "uses of a panel of contiguous columns, likewise")
X(pack_columns, RATE, 1, 1024, 24, "vectors of columns for which packing rows one by one pays")
X(pack_pages, RATE, 1, 1024, 32, "pages in which packing may be at work at a time")
X(stream_rows, RATE, 1, 1024, 32, "rows in a slice of a columns' operand that is only streamed")
X(epilogue_streams, RATE, 1, 64, 4, "arguments of an epilogue that are walked along rows")
X(prefetch_trips, RATE, 1, 64, 8, "iterations by which packed operands are prefetched")
X(prefetch_lines, RATE, 1, 64, 4, "lines by which unpacked rows are prefetched")
X(lanes_packed, FACT, 1, 100, 97, "percent of the peak for lanes of a convolution that are packed")
X(lanes_windows, FACT, 1, 100, 70, "percent, where they are packed window by window")
X(lanes_strided, FACT, 1, 100, 70, "percent, where they are places of a window that steps")
X(lanes_unaligned, FACT, 1, 100, 90, "percent, where they are contiguous and begin anywhere")
X(dot_rows, FACT, 1, 64, 16, "rows for which lanes go along a sum that both operands lie along")
X(prepack_rows, FACT, 1, 64, 10, "rows from which on weights that lie along the sum are prepacked")
X(prepack_rows_most, FACT, 1, 1 << 20, 512, "rows with which packing is cheap beside the product")
X(prepack_products, FACT, 1, 1024, 4, "products of one run that share a packed operand")
X(tile_cycles, RATE, 1, 6400, 50, "hundredths: of a tile's first and last instructions, besides")
X(tile_edge, RATE, 1, 6400, 6, "hundredths: the same for each of its rows and vectors")
X(masked_tile, RATE, 1, 100, 2, "percent longer, where tiles do not divide rows or columns")
X(masked_rows, RATE, 1, 100, 8, "percent, where that is so of rows without a pointer each")

/* ---- loops ----------------------------------------------------------------------------------- */

X(trip_cycles, RATE, 1, 64, 1, "of an iteration of a loop, besides")
X(exposed, RATE, 1, 100, 30, "percent of the lesser of work and traffic that adds to the other")
X(four_chains, RATE, 1, 1024, 12, "operations of a statement up to which four vectors go beside")
X(two_chains, RATE, 1, 1024, 40, "the same of two vectors; longer ones fill the window alone")
X(sum_chains, FACT, 1, 1024, 6, "operations a sum, up to which it has four chains of vectors")
X(unrolled, RATE, 1, 256, 40, "copies of a statement by unrolling, that still are fetched fast")
X(transpose_lines, RATE, 1, 1 << 20, 256, "lines of a block of a copy across, written whole")
X(transpose_reads, RATE, 1, 64, 8, "lines of each row that a block with rows of odd sizes reads")
X(column_rows, RATE, 1, 1024, 16, "rows of a reduction down columns at a time")
X(pipeline_ops, FACT, 1, 1024, 10, "operations an element for which rows are pipelined")

/* ---- what fusion compares, in vector operations on one element ------------------------------- */

X(store_load_cost, FACT, 0, 1 << 20, 16, "of storing an element and loading it again")
X(load_cost, FACT, 0, 1 << 20, 2, "of a load in an expression that is computed again")
X(hold_cost, FACT, 0, 1 << 20, 5, "of holding an element in a tile")
X(lane_cost, FACT, 0, 1 << 20, 16, "of accessing an element by an instruction of its own")
X(kernel_cost, FACT, 0, 1 << 30, 40000, "of one more kernel")
X(kernel_streams, FACT, 1, 64, 8, "large tensors that one kernel reads and writes")
X(half_cost, FACT, 0, 1 << 20, 400, "worth doing again an element, to store no f32 for halves")
X(serial_cost, FACT, 0, 1LL << 40, 2200000, "worth doing in a kernel that cannot be parallel")
X(few_items, FACT, 1, 1024, 8, "outer iterations below which a kernel is not parallel")
X(block_loss, FACT, 1, 1024, 6, "of products' speed, one part of so many that blocks of rows lose")
X(batch_scores, FACT, 1, 1000, 25, "percent of its operands: a batch's product to count as scores")
X(score_bytes, FACT, 1, 1LL << 36, 64 << 20, "of scores that may be stored for their gradients")
X(tile_bytes, FACT, 0, 1LL << 36, 64 << 10, "of a tile for one trip of the loops around it")
X(row_tile_bytes, FACT, 0, 1LL << 36, 256 << 10, "of a row of scores in a block's tile")
X(shared_sum_bytes, FACT, 0, 1LL << 36, 4 << 20, "of partial sums that the rows of a block share")
