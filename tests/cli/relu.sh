# relu.sh - for tests of commands that take a model in the ONNX format: one of an axis that varies, y = Relu(x), x being
# f32 [n, 3], and what the last call said.
# shellcheck shell=sh disable=SC2154
model=$scratch/relu.onnx
{
    printf '\010\010\022\000:=\012\014\012\001x\022\001y\042\004Relu\022\001gZ\024\012\001x\022\017\012\015'
    printf '\010\001\022\011\012\003\022\001n\012\002\010\003b\024\012\001y\022\017\012\015\010\001\022\011'
    printf '\012\003\022\001n\012\002\010\003B\004\012\000\020\021'
} >"$model"
says() { # says PATTERN
    grep -qE "$1" "$scratch/stdout" "$scratch/stderr"
}
