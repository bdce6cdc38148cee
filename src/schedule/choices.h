/* choices.h - what the schedulers leave to the price, one row each.
 *
 * X(name, doubt, doc)   The schedulers' own answer is the first one; another takes its place where
 * the kernel is cheaper by it, by more than `doubt` percent: as much as the price is not to be
 * trusted there; SEARCH where it cannot tell at all: then other answers are only where tuning
 * begins. No answer may change how a float sum is grouped. */
X(nontemporal, 0, "stores of results that would only evict others go past the caches")
X(pages, 4, "a stream is walked by several of its pages side by side, not in order")
X(pack_rows, 20, "the rows' operand of a product is packed, or read where it lies")
X(pack_columns, 20, "the columns' operand likewise")
X(along, 20, "tiles of a product go along rows first, not down columns")
X(tile, SEARCH,
  "the register tile of a product or a convolution, or the fastest one of another width")
X(depth, 20, "a product's sum is cut into blocks, into twice or half as many, or not at all")
X(row_blocks, SEARCH, "a product's rows are cut into blocks, into twice or half as many")
X(column_blocks, SEARCH, "a packed panel of columns is limited, or not cut")
X(grid, SEARCH,
  "a product is cut for threads into the grid of least work, or into the next best one")
X(image, 20,
  "a convolution's image is staged at a loop, at the next one inside, or at the one around")
X(panels, 20, "several panels of weights share what is staged of the image, or each stages its own")
X(crossing, SEARCH,
  "a copy across goes by squares in registers, whole rows of them, lines of the result, or a tile")
X(blocks_across, 20, "a copy across by elements goes through a tile, or as it is")
X(run, SEARCH, "a tile of a copy across is as long as a quarter of a page, or four times that")
