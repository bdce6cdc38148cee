#!/bin/sh
# test_examples.sh BUILD - every lesson runs, reaches what it sets out to reach (each checks that
# itself), and leaves no file behind.
. tests/test.sh
build=$1
for source in examples/[0-9]*.c; do
    name=$(basename "$source" .c)
    if [ "$name" = 04_checkpoint ]; then
        check "$name" "$build/examples/$name" "$scratch/lesson.safetensors"
    else
        check "$name" "$build/examples/$name"
    fi
done
curve_is_drawn() {
    "$build/examples/08_digits" examples/data "$scratch/curve.svg" | grep '^loss of each step' &&
        [ "$(grep -c '<polyline' "$scratch/curve.svg")" = 2 ] && tail -n 1 "$scratch/curve.svg" | grep '^</svg>'
}
check the_curve_of_lesson_8_is_drawn curve_is_drawn
check lessons_leave_nothing test ! -e lesson.safetensors
prints() { "$build/examples/01_tensor" | grep -q -- "$1"; }
check lesson_1_computes prints '^row sums: 33 37.5$' # (11 + 22 + 33) / 2, (14 + 25 + 36) / 2

data_page() { # so does that of docs/data.md
    sed -n '/^```c$/,/^```$/p' docs/data.md | sed '1d;$d' >"$scratch/data.c"
    # shellcheck disable=SC2086
    ${CC:-cc} -Wall -Wextra -Werror -Iinclude "$scratch/data.c" "$build/libquern.a" $(sanitizers) \
        -o "$scratch/data" -lm -ldl -pthread && "$scratch/data" | grep '^100 samples in 7 batches$'
}
readme() { # the example of README.md builds with the header and library, and prints a gradient
    sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d' >"$scratch/readme.c"
    # shellcheck disable=SC2086
    ${CC:-cc} -Wall -Wextra -Werror -Iinclude "$scratch/readme.c" "$build/libquern.a" $(sanitizers) \
        -o "$scratch/readme" -lm -ldl -pthread && "$scratch/readme" | grep 'f32\[784, 10\]'
}
sanitizers() {
    case $build in *san*) echo "-fsanitize=address,undefined" ;; esac
}
check readme_example readme
check data_example data_page
test_end
