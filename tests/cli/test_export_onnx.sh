#!/bin/sh
# test_export_onnx.sh BUILD - `quern export` of models in the ONNX format: sizes that vary have to be said, values that
# decide what is computed have to be given, and what is written is compiled and run.
. tests/test.sh
. tests/cli/command.sh
. tests/cli/relu.sh
build=$1
quern=$build/quern

# y = Reshape(x, s), x being f32 [2, 3] and s i64 [1]; and s, which is 6.
reshape=$scratch/reshape.onnx
{
    printf '\010\010\072\117\012\022\012\001\170\012\001\163\022\001\171\042\007\122\145\163\150\141\160\145'
    printf '\022\001\147\132\023\012\001\170\022\016\012\014\010\001\022\010\012\002\010\002\012\002\010\003'
    printf '\132\017\012\001\163\022\012\012\010\010\007\022\004\012\002\010\001\142\020\012\001\171\022\013'
    printf '\012\011\010\001\022\005\012\003\022\001\155\102\004\012\000\020\021'
} >"$reshape"
{
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"
    printf '\006\000\000\000\000\000\000\000'
} >"$scratch/s.npy"
export_c() { "$quern" export "$@"; }
refuses() { # refuses NAME PATTERN STATUS ARGUMENT..
    name=$1 pattern=$2 status=$3
    shift 3
    check "$name" status_is "$status" export_c --out "$scratch/out.c" "$@"
    check "${name}_says_why" says "$pattern"
    check "${name}_writes_nothing" test ! -e "$scratch/out.c"
}

refuses a_size_that_varies 'input x: axis 0 \(n\) varies: --shape n=N' 1 "$model"
refuses a_name_of_nothing 'neither an input nor an axis.*: m$' 1 "$model" --shape n=2,m=3
refuses a_batch 'batch is of models from quern train' 2 "$model" --batch 2
refuses a_value_that_decides 'depends on the value of input s; give it: --value s=FILE.npy' 1 "$reshape"
refuses a_value_of_another_type 'input "x" is i64, and the model takes f32' 1 "$reshape" --value "x=$scratch/s.npy"
check onnx_of_onnx status_is 2 export_c "$model" --out "$scratch/out.onnx" --shape n=2
check shapes_are_of_onnx status_is 2 export_c --model "$scratch/gpt.safetensors" --shape n=2
check exports status_is 0 export_c "$model" --out "$scratch/relu.c" --shape n=2
check says_what_is_what sh -c "[ \"\$(cat $scratch/stdout)\" = \"\$(printf 'input_0 is x\noutput_0 is y')\" ]"
check an_input_by_its_name status_is 0 export_c "$model" --out "$scratch/relu.c" --shape x=2x3
check has_that_shape grep -q 'define RELU_INPUT_0_SHAPE {2, 3}' "$scratch/relu.h"
check a_value_is_no_input status_is 0 export_c "$reshape" --out "$scratch/reshape.c" --value "s=$scratch/s.npy"
check only_the_other_one_is grep -q 'define RESHAPE_INPUTS 1$' "$scratch/reshape.h"
check the_value_decides grep -q 'define RESHAPE_OUTPUT_0_SHAPE {6}' "$scratch/reshape.h"

cat >"$scratch/main.c" <<'END'
#include "relu.h"
static char arena[RELU_ARENA_BYTES + RELU_ALIGN];
int main(void) {
    const float x[RELU_INPUT_0_ELEMENTS] = {1, -2, 3, -4, 5, -6};
    float y[RELU_OUTPUT_0_ELEMENTS];
    relu_run(x, y, arena + RELU_ALIGN - (uintptr_t)arena % RELU_ALIGN);
    for (int i = 0; i < RELU_OUTPUT_0_ELEMENTS; i++)
        if (y[i] != (x[i] > 0 ? x[i] : 0)) return 1;
    return 0;
}
END
check it_is_compiled cc -std=c99 -Wall -Wextra -Werror "$scratch/main.c" "$scratch/relu.c" -o "$scratch/main" -lm
check it_computes "$scratch/main"
test_end
