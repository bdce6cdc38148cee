/* rules.h - when a node about to be made has a simpler equal: one row a rule, tried in this order.
 *
 * X(name, OPS, SEES, doc)
 *   name  the function is rule_<name> (rules.c, move.c, repeat.c, pieces.c);
 *   OPS   the operations it is tried for,
 *   SEES  and the operations of which one must be among the node's sources, ANY: any, or none */
X(empty, EVERYTHING, ANY, "no elements, or over none: a constant")
X(fold, ELEMENTWISE, ON(CONST), "an exact operation on constants is a constant")
X(fold_places, ELEMENTWISE, ON(CONST), "any other is computed once, for all places")
X(times_one, ON(MUL) | ON(DIV) | ON(POW), ON(CONST), "x*1, x/1, x^1 are x")
X(times_minus_one, ON(MUL) | ON(DIV), ON(CONST), "x*-1, x/-1 are -x")
X(times_zero, ON(MUL), ON(CONST), "integers: x*0 is 0")
X(plus_zero, ON(ADD) | ON(SUB), ON(CONST), "x+0 of integers, x + -0 and x-0 are x")
X(bits_neutral, ON(AND) | ON(OR) | ON(XOR) | ON(SHL) | ON(SHR), ON(CONST),
  "and, or, xor, shift by 0 or all ones")
X(numbers_meet, ON(ADD) | ON(MUL) | ON(AND) | ON(OR) | ON(XOR) | ON(MAXIMUM) | ON(MINIMUM), ON(CONST),
  "integers: (x & 63) & 31 is x & 31, and so on with what may be grouped otherwise")
X(extreme_neutral, ON(MAXIMUM) | ON(MINIMUM), ON(CONST), "the larger of x and the lowest is x")
X(same_twice, ON(SUB) | ON(MAXIMUM) | ON(MINIMUM) | ON(AND) | ON(OR) | ON(XOR) | ON(EQ) | ON(NE) | ON(LT) | ON(LE), ANY,
  "x with itself")
X(undone, ON(NEG) | ON(NOT), ON(NEG) | ON(NOT), "-(-x) is x")
X(repeated, ON(ABS) | ON(FLOOR) | ON(CEIL) | ON(ROUND) | ON(TRUNC), ANY,
  "rounding a whole number, |-x|")
X(signs, ON(ADD) | ON(SUB) | ON(MUL) | ON(DIV), ON(NEG), "x + -y is x - y; -x * -y is x*y")
X(divide_by_power, ON(DIV), ON(CONST), "x / 2^k is x * 2^-k")
X(small_power, ON(POW), ON(CONST), "x^2 is x*x, x^-1 is 1/x, x^0 is 1")
X(choice_known, ON(WHERE), ANY, "a choice by a constant, or between equals")
X(choice_inverted, ON(WHERE), ON(NOT), "where(not c, x, y) is where(c, y, x)")
X(choice_shared, ON(ADD) | ON(SUB), ON(WHERE),
  "where(c, x, 0) + where(c, y, 0) is where(c, x + y, 0)")
X(unsigned_below_zero, ON(LT) | ON(LE), ON(CONST), "no unsigned number is below 0")
X(cast_chain, ON(CAST), ON(CAST), "casts through a dtype that loses nothing go straight")
X(bitcast_chain, ON(BITCAST), ON(BITCAST), "bitcasts go straight")
X(cast_iota, ON(CAST), ON(IOTA), "counting in another dtype")
X(needless_mark, ON(CONTIGUOUS) | ON(DETACH), ANY,
  "marks of marks, of constants, of what is stored")
X(move_constant, MOVEMENT, ON(CONST), "a constant looks the same from everywhere")
X(move_nothing, MOVEMENT, ANY, "a movement that leaves everything in place is nothing")
X(move_iota, ON(RESHAPE) | ON(PERMUTE) | ON(EXPAND) | ON(SLICE) | ON(FLIP), ON(IOTA),
  "counting along an axis that was moved")
X(iota_of_one, ON(IOTA), ANY, "counting to 1 is 0")
X(reshape_twice, ON(RESHAPE), ON(RESHAPE), "only the last shape counts")
X(reshape_of_expand, ON(RESHAPE), ON(EXPAND), "axes of size 1 come and go below a repetition")
X(permute_of_expand, ON(PERMUTE), ON(EXPAND), "axes are permuted below a repetition")
X(permute_twice, ON(PERMUTE), ON(PERMUTE), "two permutations are one")
X(expand_twice, ON(EXPAND), ON(EXPAND), "two expansions are one")
X(slice_twice, ON(SLICE), ON(SLICE), "a slice of a slice is a slice")
X(flip_twice, ON(FLIP), ON(FLIP), "an axis flipped twice is as it was")
X(pad_twice, ON(PAD), ON(PAD), "two paddings are one, where the outer has no interior")
X(slice_of_pad, ON(SLICE), ON(PAD), "a slice that sees no padding, or nothing else")
X(window_of_one, ON(WINDOW), ANY, "windows of one place are a slice of padding")
X(window_of_pad, ON(WINDOW), ON(PAD), "zeros along a window's axis need not be there")
X(join_of_nothing, ON(JOIN), ANY, "pieces without elements need not be there")
X(join_of_slices, ON(JOIN), ON(CONST) | ON(SLICE),
  "equal constants, or slices of the same tensor that lie behind each other")
X(slice_of_join, ON(SLICE), ON(JOIN), "a slice that lies in one piece is one of that piece")
X(slice_of_moved_join, ON(SLICE), ON(PERMUTE), "the same, where the axes of the join are permuted")
X(reduce_one, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN) | ON(ARGMAX) | ON(ARGMIN) | ON(SUM_PRODUCT), ANY,
  "an axis of size 1 only drops")
X(reduce_expanded, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN) | ON(ARGMAX) | ON(ARGMIN) | ON(SUM_PRODUCT), ANY,
  "the largest of equals is any, the first; the sum of n equals is n*x, their product x^n")
X(reduce_constant, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN) | ON(ARGMAX) | ON(ARGMIN), ON(CONST),
  "so with constants")
X(reduce_twice, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN), ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN),
  "over more axes at once; sums and products of integers only")
X(sum_of_pad, ON(SUM), ON(PAD), "padding adds nothing to a sum")
X(reduce_repeated, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN) | ON(ARGMAX) | ON(ARGMIN) | ON(SUM_PRODUCT), ANY,
  "what is repeated along an axis that stays is reduced once")
X(reduce_moved, ON(SUM) | ON(PROD) | ON(MAX) | ON(MIN) | ON(ARGMAX) | ON(ARGMIN), ANY,
  "what is repeated and then moved is reduced before it is moved")
X(sum_of_choice, ON(SUM), ON(WHERE),
  "a choice that is the same all along the sum, else 0, is made after it")
X(sum_of_product, ON(SUM), ANY,
  "a sum of a product is one operation, also where the product is only moved or masked by place")
