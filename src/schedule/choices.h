/* choices.h - what the schedulers leave to the price, one row each.
 *
 * X(name, doubt, doc)   The model's own answer is the first one; another takes its place where the
 * kernel is cheaper by it, by more than `doubt` percent: as much as the price is not to be trusted
 * there. No answer may change how a float sum is grouped. */
X(nontemporal, 0, "stores of results that would only evict others go past the caches")
X(pages, 4, "a stream is walked by several of its pages side by side, not in order")
X(pack_rows, 20, "the rows' operand of a product is packed, or read where it lies")
X(pack_columns, 20, "the columns' operand likewise")
X(along, 20, "tiles of a product go along rows first, not down columns")
