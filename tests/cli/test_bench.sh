#!/bin/sh
# test_bench.sh BUILD - `quern bench`: a model of an axis that varies on random inputs of the shapes that are
# given, what it prints, and what it does not take.
. tests/test.sh
. tests/cli/command.sh
. tests/cli/relu.sh
build=$1
quern=$build/quern
bench() { "$quern" bench "$model" --threads 1 "$@"; }
refuses() { # refuses NAME PATTERN SHAPE
    check "$1" status_is 1 bench --shape "$3"
    check "$1_says_why" says "$2"
}

check it_runs status_is 0 bench --runs 3
check what_varies_is_one says '^input   x f32 \[1, 3\]$'
check the_first_run_compiles says '^first   [0-9.]+ s, 1 launches, 1 kernels compiled in [0-9.]+ s$'
check the_others_are_timed says '^run     [0-9.]+ ms at least, [0-9.]+ ms in the middle of 3$'
check memory_is_shown says '^memory  [0-9.]+ MiB of tensors at most, [0-9.]+ MiB'
check an_axis_by_its_name status_is 0 bench --runs 1 --shape n=1000
check has_that_size says '^input   x f32 \[1000, 3\]$'
check an_input_by_its_name status_is 0 bench --runs 1 --shape x=7x3
check has_that_shape says '^input   x f32 \[7, 3\]$'
check no_elements status_is 0 bench --runs 1 --shape x=0x3
check another_device status_is 0 bench --runs 1 --device ref
refuses a_name_of_nothing 'neither an input nor an axis.*: m$' m=2
refuses another_number_of_axes 'x has 2 axes, not 3' x=2x3x1
refuses another_size 'axis 1 is 4, and the model takes 3' x=2x4
refuses no_number '2x3x8: 2x$' x=2x
refuses a_negative_one '2x3x8: -2$' n=-2
refuses no_name 'no name=sizes: 7$' n=2,7
check no_runs status_is 2 bench --runs 0
check no_model status_is 2 "$quern" bench
check no_such_model status_is 1 "$quern" bench "$scratch/absent.onnx"
test_end
