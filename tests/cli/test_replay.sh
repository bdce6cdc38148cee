#!/bin/sh
# test_replay.sh BUILD - the examples and a test program recorded, and run again by `quern replay`: with
# the same values to the bit on the same device and nearly the same on others; what was changed, and
# what is no recording, is an error that says where.
. tests/test.sh
quern=$1/quern
record() { # record NAME PROGRAM...: into $scratch/NAME
    file=$scratch/$1
    shift
    QN_RECORD=$file "$@" >"$scratch/.said" 2>&1 && [ -s "$file" ]
}
# agrees NAME OPTION...: it runs again without a difference
agrees() {
    file=$scratch/$1
    shift
    "$quern" replay "$file" "$@" >"$scratch/.said" 2>&1
    status=$?
    cat "$scratch/.said"
    [ $status -eq 0 ] && grep -q ' 0 left out;.* 0 not compared; 0 differences' "$scratch/.said"
}
to_the_bit() { # to_the_bit NAME: every value is
    agrees "$1" && sed -nE 's/.* ([0-9]+) values read, ([0-9]+) the same.*/\1 \2/p' "$scratch/.said" |
        { read -r all same && [ "$all" = "$same" ] && [ "$all" -gt 0 ]; }
}

for example in 01_tensor 02_grad 03_mlp 04_checkpoint; do
    check records_$example record $example "$1/examples/$example"
    check ${example}_is_the_same_to_the_bit to_the_bit $example
done
check test_programs_are_recorded record optim "$1/tests/test_optim" state
check and_give_the_same agrees optim
for example in 01_tensor 02_grad 04_checkpoint; do
    check ${example}_on_the_oracle agrees $example --device ref
    if command -v cc >/dev/null; then
        check ${example}_through_c env QN_CPU=cc "$quern" replay "$scratch/$example"
    else
        skip ${example}_through_c "no C compiler"
    fi
done
if "$quern" replay "$scratch/01_tensor" --device opencl 2>&1 | grep -q 'device opencl'; then
    skip examples_on_opencl "no OpenCL device"
else
    check tensor_on_opencl agrees 01_tensor --device opencl
    check grad_on_opencl agrees 02_grad --device opencl
fi

# What is different is named by its call; a tolerance may allow it
changed() { # changed SED-SCRIPT OPTION...: the first example, changed, is run again
    sed -E "$1" "$scratch/01_tensor" >"$scratch/changed"
    cmp -s "$scratch/01_tensor" "$scratch/changed" && return 0 # it should have failed
    shift
    "$quern" replay "$scratch/changed" "$@" >"$scratch/.said" 2>&1
    status=$?
    cat "$scratch/.said"
    return $status
}
says() { grep -qF -- "$1" "$scratch/.said"; }
value='s/^(9 = 0 f32 =AAAEQgAA)F/\1E/'
check_fails a_changed_value_is_a_difference changed "$value"
check its_call_and_arguments_are_named says \
    'call 9: qn_read(t, out, size) was given t7 * 8: element 1 is 37.5, and was 36.5'
check a_tolerance_allows_it changed "$value" --tolerance 0.1
check_fails a_changed_code_is_a_difference changed 's/^(15 = - )!-3/\1!-4/'
check it_is_named_too says \
    'call 15: qn_matmul(x, y) was given t2 t10: the code that is pending is -3, and was -4'

# What is no recording
check_fails a_damaged_line changed 's/^6 add t2 t3/6 add t2 x3/'
check is_named says 'changed:'
check_fails a_file_that_is_none "$quern" replay "$quern"
check_fails a_file_that_is_not_there "$quern" replay "$scratch/none"
check_fails no_file "$quern" replay
check help_says_how "$quern" replay --help
test_end
