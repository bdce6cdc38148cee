#!/bin/sh
# test_gen.sh BUILD - the generator, on a copy of the files it reads and writes: rows that change, come
# and go change the header's generated part and their regions elsewhere and nothing else; a region that
# was edited by hand is noticed and kept until one says otherwise; --check changes nothing and fails
# where a run would do something.
. tests/test.sh
command -v python3 >/dev/null || {
    skip gen "no python3"
    test_end
    exit
}

tree=$scratch/tree
ops=$tree/src/graph/ops.h
header=$tree/include/quern_ops.h
api=$tree/src/func/api.c
fresh() { # a copy that is up to date
    rm -rf "$tree"
    mkdir -p "$tree/tools" "$tree/include" "$tree/docs" "$tree/src/graph" "$tree/src/func" \
        "$tree/src/base" "$tree/src/record" "$tree/src/nn/layers" "$tree/python/src" "$tree/python/quern/nn"
    cp tools/gen*.py tools/calls.py "$tree/tools"
    cp include/quern*.h "$tree/include"
    cp docs/ops.* docs/knobs.md docs/python.md docs/layers.md docs/accuracy.md docs/gradients.md "$tree/docs"
    cp python/src/calls.h python/src/docs.h "$tree/python/src"
    cp python/quern/_core.pyi "$tree/python/quern"
    cp python/quern/nn/layers.pyi "$tree/python/quern/nn"
    cp src/nn/layers/rows.h src/nn/layers/arguments.h "$tree/src/nn/layers"
    cp src/graph/ops.h "$tree/src/graph"
    cp -r src/func src/math "$tree/src"
    cp src/base/knobs.h src/base/dtypes.h "$tree/src/base"
    cp src/record/*.h "$tree/src/record"
    rm -rf "$scratch/before"
    cp -r "$tree" "$scratch/before"
}
gen() { python3 "$tree/tools/gen.py" "$@"; }
says() { # says TEXT OPTION...: what gen prints holds TEXT; its status does not matter
    text=$1
    shift
    gen "$@" >"$scratch/.said" 2>&1
    cat "$scratch/.said"
    grep -qF -- "$text" "$scratch/.said"
}
edit() { # edit FILE SED-SCRIPT: fails where nothing changes
    cp "$1" "$scratch/.was"
    sed -E "$2" "$scratch/.was" >"$1"
    ! cmp -s "$1" "$scratch/.was"
}
same() { diff -r "$scratch/before" "$tree"; }
changed_lines() { # changed_lines FILE: how many lines of FILE differ from the first copy
    diff "$scratch/before/$1" "$tree/$1" | grep -c '^[<>]'
}
has() { grep -qF -- "$2" "$tree/$1"; }
lacks() { ! has "$1" "$2"; }

check passes_this_tree python3 tools/gen.py --check
fresh
check a_run_without_changes_writes_nothing says '0 regions written, 0 left as edited'
check leaves_every_byte same

# A changed row
check_row() { edit "$ops" 's/"square root; NaN below 0"/"the root of x"/'; }
check changes_a_row check_row
cp -r "$tree" "$scratch/stale"
check_fails check_fails_on_a_stale_region gen --check
check check_names_the_stale_line says ': /* square root; NaN below 0' --check
check check_names_the_stale_region says 'docs/ops.md: elem' --check
check check_writes_nothing diff -r "$scratch/stale" "$tree"
rm -rf "$scratch/stale"
check writes_the_changed_row says 'include/quern_ops.h:'
check the_prototype_has_the_new_words has include/quern_ops.h '/* the root of x ('
check the_table_has_the_new_words has docs/ops.md '| the root of x |'
check only_that_region_changed [ "$(changed_lines include/quern_ops.h)" -eq 2 ]
check is_up_to_date_then gen --check

# Rows that come and go
fresh
check adds_a_row edit "$ops" \
    's/^X\(EXP2, .*/X(EXP10, "exp10", 1, ELEM, FLOAT, pow(10, x), -, FORMULA, 1, 0, NONE, -4, 4, "10^x")\n&/'
check_fails check_fails_on_a_missing_region gen --check
check writes_the_new_row says 'src/func/api.c: exp10 (new)'
check the_new_prototype_is_there has include/quern_ops.h 'qn_tensor *qn_exp10(qn_tensor *x);'
after() { # after FIRST SECOND: the regions follow each other
    grep -oE 'qn_[a-z0-9_]+\(qn_tensor' "$header" | grep -A1 -xF "qn_$1(qn_tensor" | grep -qxF "qn_$2(qn_tensor"
}
check it_stands_behind_the_row_before_it after exp exp10
check python_calls_it has python/src/calls.h 'X(exp10, "exp10", "x:T", qn_exp10(T(0)))'
check python_has_its_words has python/src/docs.h 'X(exp10, "(x)", "10^x (floats; integers and bools as f32)")'
check the_stub_has_the_function has python/quern/_core.pyi 'def exp10(x: TensorLike) -> Tensor: ...'
check the_stub_has_the_method has python/quern/_core.pyi '    def exp10(x) -> Tensor: ...'
check the_python_page_has_it has docs/python.md '| `exp10(x)` | 10^x'
check is_up_to_date_with_it gen --check
check removes_the_row edit "$ops" '/^X\(EXP10,/d'
check takes_the_region_away says 'src/func/api.c: exp10 (gone)'
check the_prototype_is_gone lacks include/quern_ops.h exp10
check nothing_else_is_gone [ "$(changed_lines include/quern_ops.h)" -eq 0 ]

# What is not of the tables has no place in the generated part of the header; around it one may write
fresh
check edits_the_generated_part edit "$header" 's/(qn_tensor \*qn_sqrt\(qn_tensor \*)x\)/\1number)/'
check_fails check_fails_on_it gen --check
check check_names_the_edited_line says 'qn_sqrt(qn_tensor *number)' --check
check a_run_writes_it_anew says 'include/quern_ops.h:'
check then_every_byte_is_as_it_was same
check writes_around_it edit "$header" 's/^typedef enum qn_combine/\/* by hand *\/\n&/'
check that_is_nobodys_business gen --check

# Edits by hand
fresh
check edits_a_region edit "$api" 's/build_elem\(OP_SQRT, 1, &x\)/build_root(x)/'
check_fails check_fails_on_an_edited_region gen --check
check names_the_edited_region says 'sqrt: edited by hand'
check keeps_the_edit has src/func/api.c 'build_root(x)'
check changes_its_row_too check_row
check keeps_the_edit_and_says_so says 'sqrt: edited by hand'
check the_edit_stays_when_its_row_changes has src/func/api.c 'build_root(x)'
check force_of_another_name_keeps_it says 'sqrt: edited by hand' --force exp
check force_writes_it_anew says 'src/func/api.c: sqrt' --force sqrt
check the_edit_is_gone has src/func/api.c 'build_elem(OP_SQRT, 1, &x)'
check is_up_to_date_after_force gen --check

fresh
edit "$api" 's/build_elem\(OP_SQRT, 1, &x\)/build_root(x)/'
check accept_takes_the_edit says 'src/func/api.c: sqrt' --accept sqrt
check the_marker_says_kept grep -q '\[gen sqrt .* kept\]' "$api"
check an_accepted_edit_is_up_to_date gen --check
check_row
check_fails a_changed_row_fails_the_accepted_edit gen --check
check an_accepted_edit_is_kept_nevertheless says 'kept as edited, but its row changed'
check the_accepted_words_stay has src/func/api.c 'build_root(x)'

# An edited region whose row goes; text between the regions
fresh
edit "$api" 's/build_elem\(OP_SQRT, 1, &x\)/build_root(x)/'
edit "$ops" '/^X\(SQRT,/d'
check an_edited_region_outlives_its_row says 'sqrt: edited, and its row is gone'
check its_words_stay has src/func/api.c 'build_root(x)'
fresh
check writes_between_regions edit "$api" 's/^\/\* \[gen erf /\/* by hand *\/\n\n&/'
check text_between_regions_is_nobodys_business gen --check
check refuses_an_unknown_option sh -c "! python3 '$tree/tools/gen.py' --nonsense"

test_end
