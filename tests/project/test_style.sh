#!/bin/sh
# test_style.sh BUILD - the style checker passes this tree and finds each fault it is there to find:
# a rule that never fires would be no rule.
. tests/test.sh
command -v python3 >/dev/null || {
    skip style "no python3"
    mkdir -p "$scratch/twice/tools" "$scratch/twice/tests/io" "$scratch/twice/tests/ir"
cp Makefile "$scratch/twice" && cp tools/*.mk "$scratch/twice/tools"
touch "$scratch/twice/tests/io/test_one.c" "$scratch/twice/tests/ir/test_other.c"
check makes_programs_of_different_names make -C "$scratch/twice" -n help
touch "$scratch/twice/tests/ir/test_one.c"
check_fails refuses_two_test_programs_of_one_name make -C "$scratch/twice" -n help
test_end
    exit
}

tree() { # a small clean tree to spoil
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/src/graph" "$scratch/tree/src/cli" "$scratch/tree/docs"
    cat >"$scratch/tree/src/graph/good.c" <<'END'
/* good.c - a file without fault. */
#include "base/base.h"
END
    cp .clang-format "$scratch/tree"
}
style() { python3 tools/style.py "$scratch/tree"; }
finds() { # finds NAME TEXT: the checker fails, and its words hold TEXT
    style >"$scratch/.out" 2>&1 && { echo "style found nothing" >>"$scratch/.out"; return 1; }
    grep -q -- "$1" "$scratch/.out"
}
lines() { # lines N TEXT
    yes "$2" | head -n "$1"
}
spoil() { # spoil NAME FILE LINE TEXT
    tree
    mkdir -p "$(dirname "$scratch/tree/$2")"
    case $2 in
    *.py) : >"$scratch/tree/$2" ;;
    *) [ -f "$scratch/tree/$2" ] || printf '/* %s - a file. */\n' "$(basename "$2")" >"$scratch/tree/$2" ;;
    esac
    printf '%s\n' "$3" >>"$scratch/tree/$2"
    check "$1" finds "$4"
}

check passes_this_tree python3 tools/style.py
tree
mkdir "$scratch/tree/docs/decisions"
printf '# Why\n\n[back](../a.md#a-heading-of-it), [here](#why), [there](https://nowhere.invalid/b.md)\n' \
    >"$scratch/tree/docs/decisions/001-why.md"
printf '## A heading `of` it\n\n[why](decisions/001-why.md), docs/decisions/001-why.md\n' >"$scratch/tree/docs/a.md"
check passes_a_clean_tree style
spoil finds_a_later_room src/graph/good.c '#include "ir/ir.h"' 'may not include'
spoil finds_an_include_without_room src/graph/good.c '#include "local.h"' 'must name its room'
spoil finds_an_unknown_room src/cellar/a.c 'int a;' 'no such room'
spoil finds_abort src/graph/good.c 'static void f(void) { abort(); }' 'must not call abort'
spoil finds_printing src/graph/good.c 'static void f(void) { printf("x"); }' 'must not call printf'
spoil finds_stderr src/graph/good.c 'static void f(void) { fputs("x", stderr); }' 'must not print'
spoil finds_unfinished_work docs/a.md "$(printf 'TO%s: more' DO)" 'unfinished'
spoil finds_a_broken_link docs/a.md 'see [b](b.md)' 'a link to b.md'
spoil finds_a_link_to_no_heading docs/a.md 'see [b](#other)' 'a heading that is not there'
spoil finds_a_page_that_is_gone src/graph/good.c '/* docs/gone.md says why. */' 'names docs/gone.md'
spoil finds_a_decision_without_number docs/decisions/why.md '# Why' 'a decision is called'
spoil finds_a_gap_among_decisions docs/decisions/002-why.md '# Why' 'here comes 001'
spoil finds_long_lines src/graph/good.c "/* $(printf '%0100d' 0) */" 'columns'
spoil finds_tabs src/graph/good.c "$(printf '\tint a;')" 'a tab'
spoil finds_trailing_space src/graph/good.c 'int a; ' 'space at the end'
long_function="$(echo 'int f(void) {'; lines 59 '    f();'; echo '}')" # 61 lines
spoil finds_functions_over_60_lines src/graph/good.c "$long_function" 'good.c:3: a function of 61 lines'
spoil finds_a_reason_that_does_not_stand_right_before src/graph/good.c \
    "$(printf '/* Long because it is a table. */\nextern int a;\n%s' "$long_function")" 'a function of 61 lines'
spoil finds_a_reason_without_words src/graph/good.c \
    "$(printf '/* Long because ... */\n%s' "$long_function")" 'a function of 61 lines'
spoil finds_files_over_800_lines src/graph/good.c "$(lines 799 'extern int a;')" '801 lines: a file has at most 800'
spoil finds_long_functions_of_the_package python/quern/a.py \
    "$(printf 'def f():\n'; lines 60 '    g()')" 'a function of 61 lines'
spoil finds_long_files_of_the_package python/quern/a.py "$(lines 801 'a = 1')" '801 lines: a file has at most 800'
spoil finds_public_functions_of_more_than_6_parameters include/quern.h \
    "$(printf 'QN_API int qn_f(int a, int b, int c, int d,\n int e, void (*g)(int, int), int h);')" \
    'qn_f has 7 parameters'
spoil finds_an_enum_without_value include/quern.h 'typedef enum a { QN_A = 0, QN_B } a;' 'QN_B of a public enum'
spoil finds_a_member_that_counts include/quern.h 'typedef enum a { QN_A = 0, QN_A_COUNT = 1 } a;' 'no member counts'
spoil finds_more_than_6_parameters src/graph/good.c \
    "$(printf 'static int f(int a, int b, int c, int d, int e, void (*g)(int, int), int h) {\n}')" \
    'f has 7 parameters'
tree
printf '%s\n' 'static int f(int a, int b, int c, int d, int e, void (*g)(int, int)) {' '    g();' '}' '' \
    'int qn_f(int a, int b, int c, int d, int e, int g, int h) {' '    g();' '}' '' \
    '/* Long because it is a table. */' 'int g(void) {' "$(lines 60 '    g();')" '}' \
    '' '/* A table.' ' *' ' * Long because it' ' * is one. */' 'int h(void) {' "$(lines 60 '    g();')" '}' \
    >>"$scratch/tree/src/graph/good.c"
{ echo '/* full.c - a file. */'; lines 799 'extern int a;'; } >"$scratch/tree/src/graph/full.c"
mkdir -p "$scratch/tree/python/quern" "$scratch/tree/include"
{ echo '# Long because it is a list.'; echo 'def f():'; lines 60 '    g()'; } >"$scratch/tree/python/quern/a.py"
lines 900 'a: int' >"$scratch/tree/python/quern/b.pyi"
printf '/* quern.h - the calls. */\ntypedef enum a { QN_A = 0, QN_A_MAX = -1 } a; /* an enum */\n' \
    >"$scratch/tree/include/quern.h"
check finds_nothing_in_what_the_rules_allow style
tree
for i in 1 2 3 4 5 6 7; do
    { echo "/* a$i.c - a file. */"; lines 780 'extern int a;'; } >"$scratch/tree/src/graph/a$i.c"
done
check finds_rooms_over_5000_lines finds 'src/graph:1: 54.. lines of C: a folder has at most 5000'
mkdir "$scratch/tree/src/graph/inner"
mv "$scratch/tree/src/graph/a6.c" "$scratch/tree/src/graph/a7.c" "$scratch/tree/src/graph/inner"
check counts_a_folder_in_a_room_apart style
tree
echo 'int a;' >"$scratch/tree/src/graph/bare.c"
check finds_a_missing_essay finds 'a file opens with'
tree
printf '/* main.c - the command. */\nstatic void f(void) {\n    puts("x");\n}\n' >"$scratch/tree/src/cli/main.c"
check lets_the_command_print style
if command -v clang-format >/dev/null && clang-format --version | grep -q 'version 14\.'; then
    spoil finds_other_formatting src/graph/good.c 'int   a;' 'clang-format'
else
    skip finds_other_formatting "no clang-format 14"
fi
mkdir -p "$scratch/twice/tools" "$scratch/twice/tests/io" "$scratch/twice/tests/ir"
cp Makefile "$scratch/twice" && cp tools/*.mk "$scratch/twice/tools"
touch "$scratch/twice/tests/io/test_one.c" "$scratch/twice/tests/ir/test_other.c"
check makes_programs_of_different_names make -C "$scratch/twice" -n help
touch "$scratch/twice/tests/ir/test_one.c"
check_fails refuses_two_test_programs_of_one_name make -C "$scratch/twice" -n help
test_end
