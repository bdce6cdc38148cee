#!/bin/sh
# test_tour.sh BUILD - docs/tour.md names files and functions to open; each file must exist, and each
# function named behind a file must be defined in it. Where a reader finds what the tour is asked most
# often is held, too.
. tests/test.sh

# "file function" for each `function` behind a `file` in a line of a table.
pairs() {
    awk '/^\|/ {
        n = split($0, part, "`"); file = ""
        for (i = 2; i <= n; i += 2) {
            if (part[i] ~ /^src\//) { file = part[i]; print file }
            else if (file != "") print file, part[i]
        }
    }' docs/tour.md
}
defined() { # defined FILE FUNCTION: a definition starts in the first column, or a rule's row names it
    grep -qE "^[A-Za-z_].*[ *]$2\(" "$1"
}
exists() {
    pairs | while read -r file name; do
        if [ ! -f "$file" ]; then echo "no file $file"
        elif [ -n "$name" ] && ! defined "$file" "$name"; then echo "no $name in $file"
        fi
    done >"$scratch/lost"
    cat "$scratch/lost"
    [ ! -s "$scratch/lost" ]
}
enough() { [ "$(pairs | wc -l)" -ge 60 ]; }
every_room() { # each room of the style checker is on the way
    for room in $(sed -n '/^ROOMS/,/[^\\]$/{s/^ROOMS *:= //;s/\\$//;p}' Makefile); do
        case $room in base | io | nn | tune | sym) continue ;; esac
        grep -q "src/$room/" docs/tour.md || { echo "nothing of $room"; return 1; }
    done
}
says() { # says WORDS FILE FUNCTION: one line of the tour holds all three
    grep -F -- "$1" docs/tour.md | grep -F -- "\`$2\`" | grep -qF -- "\`$3\`" && defined "$2" "$3"
}

check every_file_and_function_of_the_tour_exists exists
check the_tour_names_many_of_them enough
check the_tour_enters_every_room_between_call_and_launch every_room
check where_b_is_packed says 'packs B' src/transform/stage.c copy_in
check where_0_times_x_is_folded says 'folds 0*x' src/graph/rules/rules.c rule_times_zero
check where_exponentials_are_kept says 'exponentials of a softmax' src/plan/fuse.c decide
check where_the_gradient_of_pad_is says 'such as that of pad' src/grad/rules.c rule_pad
check where_the_tail_mask_is says 'the tail mask' src/emit/llvm/index.c llvm_lane_mask
check where_schedules_are_checked says 'is every access in bounds' src/ir/check.c ir_verify
check the_readme_leads_to_the_tour grep -q 'docs/tour.md' README.md
test_end
