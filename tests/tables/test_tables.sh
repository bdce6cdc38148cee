#!/bin/sh
# test_tables.sh BUILD - what stands in a table stands nowhere else: in a copy of the tree an
# operation, an element type, a monoid and a transform are added by the steps of HACKING.md, that is
# by their rows, the functions the rows name and their tests, and the copy is built and tested.
# Whatever else had to be touched for it would be missing here.
. tests/test.sh
command -v python3 >/dev/null || {
    skip tables "no python3"
    test_end
    exit
}

tree=$scratch/tree
mkdir "$tree"
cp -r src include models tests tools docs python Makefile .clang-format "$tree"
build=$tree/build
jobs=$(nproc 2>/dev/null || echo 2)

before() { # before FILE PATTERN: the text from standard input goes in front of the first line with it
    cat >"$scratch/text"
    awk -v pattern="$2" -v text="$scratch/text" '
        !done && $0 ~ pattern { while ((getline line < text) > 0) print line; done = 1 }
        { print }
        END { exit !done }' "$tree/$1" >"$scratch/new" && cp "$scratch/new" "$tree/$1"
}
after() { # after FILE: at its end
    cat >>"$tree/$1"
}

# An operation: softfrac. Its row, its gradient, its expansion and that one's row, its oracle.
check operation_row before src/graph/ops.h '^X[(]ERF,' <<'X'
X(SOFTFRAC, "softfrac", 1, ELEM, FLOAT, x / (1 + fabs(x)), -, FORMULA, 3, 0, softfrac, -8, 8, "x / (1 + |x|)")
X
check operation_gradient before src/grad/rules.c 'the column of ops.h' <<'X'
/* 1 / (1 + |x|)^2 */
static void rule_softfrac(grad *c, node_id n, node_id g) {
    node_id x = source(c, n, 0), one = number(c, n, 1);
    node_id r = make1(c->g, OP_RECIPROCAL, make2(c->g, OP_ADD, one, make1(c->g, OP_ABS, x)));
    by_slope(c, n, 0, g, mul(c, r, r));
}

X
check operation_expansion_row before src/ir/functions.h 'X[(]POW,' <<'X'
    X(SOFTFRAC, softfrac, 1, 1.5, 1.5) \
X
cat >"$tree/src/math/softfrac.c" <<'X'
/* softfrac.c - x / (1 + |x|): one rounding in the sum, one in the quotient. */
#include "math/math.h"

expr_id math_softfrac(const math *m, const expr_id *x) {
    return math_div(m, x[0], math_add(m, math_f(m, 1), math_abs(m, x[0])));
}
X
check operation_oracle before tests/math/test_math.c '^#define REAL' <<'X'
static wide softfracl(wide x) {
    return isinf(x) ? NAN : x / (1 + fabsl(x));
}

static double softfrac(double x) {
    return (double)softfracl(x);
}

X

# An element type: eight bits, three of them exponent. Its enumerator and its row.
check dtype_enumerator before include/quern.h '^    QN_F8_E5M2 = ' <<'X'
    QN_F8_E3M4 = 15,
X
check dtype_row before src/base/dtypes.h '^#endif' <<'X'
X(F8_E3M4, "f8_e3m4", 8, NARROW, 1, F32, F32, uint8_t, 4, -2, INF)
X

# A monoid, and a reduction by it.
check monoid_row after src/graph/monoids.h <<'X'
X(XOR, "^=", XOR, BITS, COMMUTES, op, (PART(VALUE, TERM, ZERO)), OP_PARITY)
X
check reduction_row before src/graph/ops.h '^X[(]ARGMAX,' <<'X'
X(PARITY, "parity", 1, REDUCE, BITS, -, -, NONE, 1, 1, NONE, 0, 0, "exclusive or over axes")
X

# A monoid of three components: count, mean and the sum of squares around it, in one pass.
check state_row after src/graph/monoids.h <<'X'
X(SPREAD, "spread=", NONE, FLOAT, COMMUTES, spread,
  (PART(VALUE, ONE, ZERO), PART(VALUE, TERM, ZERO), PART(VALUE, ZERO, ZERO)), OP_SPREAD)
X
check state_formula before src/graph/monoid.c '^#define combine_op' <<'X'
/* Chan, Golub, LeVeque 1979 */
static void combine_spread(const monoid_formula *f, const monoid_term *a, const monoid_term *b,
                           monoid_term *out) {
    out[0] = op2(f, OP_ADD, a[0], b[0]);
    monoid_term some = op2(f, OP_MAXIMUM, out[0], f->number(f->user, a[0], 1));
    monoid_term d = op2(f, OP_SUB, b[1], a[1]), part = op2(f, OP_DIV, b[0], some);
    monoid_term step = op2(f, OP_MUL, d, part);
    out[1] = op2(f, OP_ADD, a[1], step);
    monoid_term between = op2(f, OP_MUL, op2(f, OP_MUL, d, step), a[0]);
    out[2] = op2(f, OP_ADD, op2(f, OP_ADD, a[2], b[2]), between);
}

static monoid_term finish_spread(const monoid_formula *f, const monoid_term *state) {
    return op2(f, OP_DIV, state[2], state[0]);
}

X
check state_reduction before src/graph/ops.h '^X[(]ARGMAX,' <<'X'
X(SPREAD, "spread", 1, REDUCE, FLOAT, -, -, NONE, 1, 1, NONE, 0, 0, "variance over axes, in one pass")
X

# A transform: its file, its row, its example.
cat >"$tree/src/transform/halve.c" <<'X'
/* halve.c - two halves of a loop.
 *
 *   halve i   for i < n { A }   becomes   for io < 2 { for ii < n/2 { A } }
 *
 * Always legal; of an odd extent the second half is one shorter. */
#include "transform/transform.h"

bool apply_halve(kernel *k, const transform_args *a, transform_made *made, str *why) {
    int64_t extent;
    if (!sym_is_const(k->syms, ir_s(k, a->loop[0])->l.extent, &extent) || extent < 2)
        return ir_refuse(why, "the extent is no number above 1");
    if (!ir_split(k, a->loop[0], (extent + 1) / 2, a->name[0], a->name[1], why)) return false;
    transform_report(k, made, a->loop[0]);
    transform_report(k, made, ir_s(k, a->loop[0])->first);
    return true;
}
X
check transform_row before src/transform/transforms.h '^X[(]merge,' <<'X'
X(halve, "l2", apply_halve, NEST, "outer inner", "halve i -> io ii: the two halves of i's iterations")
X
check transform_example after tests/transform/examples.txt <<'X'

# halve
Always legal where the extent is a number.
kernel "copy" {
  arg a0 f32[11] write
  arg a1 f32[11] read
  for i < 11 {
    a0[i] = a1[i]
  }
}
halve i -> io ii
X

# Build, generate what C cannot include, test.
cp tests/tables/rows.c "$tree/tests/tables/test_new_rows.c"
check generates python3 "$tree/tools/gen.py"
make_in() { make -C "$tree" -j"$jobs" BUILD=build CFLAGS="-O0 -Wno-error -Werror=switch" --no-print-directory "$@"; }
run() { (cd "$tree" && build/tests/"$@"); }
check builds make_in build/libquern.a
check builds_tests make_in build/tests/test_new_rows build/tests/test_math build/tests/test_transform_docs \
    build/tests/test_grad build/tests/test_dtype
check writes_the_page sh -c "cd '$tree' && build/tests/test_transform_docs --print >docs/transforms.md"
check rows_mean_what_they_say run test_new_rows
check operation_in_the_tests_of_functions run test_math f32_functions a_function_costs
check operation_in_the_tests_of_gradients run test_grad every_elementwise_row
check transform_in_the_reference run test_transform_docs
check dtypes_are_what_they_were run test_dtype
test_end
