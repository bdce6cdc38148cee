/* schedulers.h - the schedulers of a processor's loop nests, one row each, in the order in which
 * they are asked: the first that takes a nest schedules it.
 *
 * X(name, function, when, doc)
 *   function  bool (scheduler *, stmt_id loop): schedule the nest of that root loop, and ask where
 *             the price can tell more (proposals.c); or leave the kernel as it is: it does not
 *             apply, false
 *   when      LEAF only nests that do nothing but store, ALONE only where the loop is the kernel's
 *             first root and others do nothing but fill memory, ANY all others */
X(reduction, schedule_reduction, LEAF, "loops that reduce into tiles beside them, of the whole kernel")
X(elementwise, schedule_elementwise, LEAF, "loops around stores: streams, copies, transpositions")
X(block_product, schedule_block_product, ALONE, "rows, columns and a sum of scaled products")
X(attention, schedule_attention, ALONE, "rows with products inside")
X(convolution, schedule_convolution, ALONE, "a contraction over windows, or of more loops than three")
X(contraction, schedule_contraction, ALONE, "rows, columns and a sum")
X(depthwise, schedule_depthwise, ALONE, "windows over images that share no weights")
X(block_rows, schedule_block_rows, ANY, "rows times weights in blocks")
X(rows, schedule_rows, ANY, "loops around reductions and loops: softmax, norms, sums")
