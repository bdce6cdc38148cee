#!/bin/sh
# test_archive.sh BUILD - libquern.a has public names only: a program may have functions of its own, or
# of another static library, under the names that the library uses inside.
. tests/test.sh
build=$1
cc=${CC:-cc}
globals() { nm --defined-only --extern-only "$build/libquern.a" | awk 'NF == 3 { print $3 }'; }
cat >"$scratch/other.c" <<'END'
int fail(int x);
int arena_open(int x);
int sym_add(int x);
int fail(int x) { return x + 1; }
int arena_open(int x) { return fail(x) + 1; }
int sym_add(int x) { return arena_open(x) + 1; }
END
cat >"$scratch/program.c" <<'END'
#include "quern.h"
int sym_add(int x);
int main(void) {
    float v[2] = {1, 2}, sum = 0;
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){2}, v);
    int code = qn_read(qn_sum(x, QN_ALL, false), &sum, sizeof sum);
    qn_close(qn);
    return code || sum != 3 || sym_add(1) != 4;
}
END
case $build in
*-san | *-tsan) skip two_static_libraries "sanitizers have names of their own" ;;
*)
    check exports_something sh -c "[ $(globals | grep -c '^qn_') -gt 200 ]"
    check exports_public_names_only sh -c "! nm --defined-only --extern-only '$build/libquern.a' |
        awk 'NF == 3 { print \$3 }' | grep -v '^qn_'"
    $cc -c -o "$scratch/other.o" "$scratch/other.c"
    ar rcs "$scratch/libother.a" "$scratch/other.o"
    link() { # link FIRST SECOND: and run
        $cc -std=c17 -Iinclude -o "$scratch/program" "$scratch/program.c" "$1" "$2" -lm -ldl -pthread &&
            "$scratch/program"
    }
    check two_static_libraries link "$build/libquern.a" "$scratch/libother.a"
    check in_the_other_order link "$scratch/libother.a" "$build/libquern.a"
    check_fails all_names_would_clash link "$build/internal.a" "$scratch/libother.a"
    ;;
esac
test_end
