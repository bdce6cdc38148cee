#!/bin/sh
# test_static.sh BUILD - a program linked statically has no dynamic loader: nothing is loaded, kernels
# go through the C compiler, and nothing crashes.
. tests/test.sh
build=$1
cat >"$scratch/static.c" <<'END'
#include <stdio.h>
#include "quern.h"
static void say(void *user, const char *line) {
    (void)user;
    puts(line);
}
int main(void) {
    float v[3] = {1, 2, 3}, sum = 0;
    qn_options cl = QN_OPTIONS(.device = "opencl", .log = say), llvm = QN_OPTIONS(.device = "cpu", .log = say);
    if (qn_open(&cl)) return 2;
    qn_ctx *qn = qn_open(&llvm);
    if (!qn) return 3;
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){3}, v);
    qn_tensor *y = qn_sum(qn_mul(x, qn_exp(qn_mul(x, qn_like(x, 0)))), QN_ALL, false);
    int code = qn_read(y, &sum, sizeof sum);
    printf("%g %s\n", sum, qn_error(qn));
    qn_close(qn);
    return code || sum != 6;
}
END
if case $build in *-san) true ;; *) false ;; esac; then
    skip a_static_program "the sanitizers do not link statically"
elif ! ${CC:-cc} -std=c17 -Iinclude -static -o "$scratch/static" "$scratch/static.c" \
    "$build/libquern.a" -lm -ldl -pthread 2>"$scratch/link"; then
    skip a_static_program "it does not link here: $(tail -n 1 "$scratch/link")"
else
    check a_static_program_computes "$scratch/static"
    check it_loads_nothing sh -c "$scratch/static | grep -q 'opencl: a static program loads no lib'"
    check it_says_so_of_llvm sh -c "QN_CPU=llvm QN_DEBUG=e $scratch/static | grep 'static program loads no libLLVM'"
fi
test_end
