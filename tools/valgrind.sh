#!/bin/sh
# valgrind.sh BUILD - a sample of programs under valgrind: graphs and their values by the plain
# device, files, and a step of training by compiled kernels, LLVM and threads included. An error, or
# a block that nothing points to at the end, is a failure. Ends with "N passed, N failed, N skipped".
#
# Valgrind knows no AVX-512 and says so, so kernels are compiled for what it does know.
build=$1
if ! command -v valgrind >/dev/null; then
    echo "no valgrind here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# The loader compares its own strings by words and so reads past their ends.
cat >"$scratch/known" <<'KNOWN'
{
   strings of the loader, by words
   Memcheck:Addr8
   obj:*/ld-linux-*.so.2
   obj:*/ld-linux-*.so.2
}
KNOWN

sample() { # sample NAME COMMAND...
    name=$1
    shift
    start=$(date +%s)
    env QN_CACHE=off QN_THREADS=2 valgrind --quiet --suppressions="$scratch/known" \
        --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite --log-file="$scratch/log" \
        "$@" >"$scratch/out" 2>&1 </dev/null
    status=$?
    if [ $status -eq 0 ] && [ ! -s "$scratch/log" ]; then
        passed=$((passed + 1))
        echo "ok    $name ($(($(date +%s) - start)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: status $status"
        tail -n 20 "$scratch/out"
        head -n 60 "$scratch/log"
    fi
}
train() { # train DEVICE: one step of the smallest model there is
    sample "train on $1" "$build/quern" train --device "$1" --text README.md --steps 1 \
        --layers 1 --width 8 --heads 1 --context 4 --batch 1 --out "$scratch/model"
}

sample "graphs" "$build/tests/test_graph"
sample "gradients" "$build/tests/test_grad" products
sample "files" "$build/tests/test_io" comes_back
sample "damaged files" "$build/tests/test_io" wrong_headers
train ref
train cpu

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
