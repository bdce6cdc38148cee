#!/bin/sh
# run_tests.sh BUILD PROGRAM... - run each test program (or .sh script, which is given BUILD), print
# what fails, and end with "N passed, N failed, N skipped". A program that crashes, or prints no
# count of its own, counts as one failure.
build=$1
shift
mkdir -p "$build/tests"
# PoCL, where it stands in for an OpenCL device, keeps what it compiles here and not in the home.
POCL_CACHE_DIR=$(cd "$build" && pwd)/pocl
export POCL_CACHE_DIR
mkdir -p "$POCL_CACHE_DIR"
passed=0 failed=0 skipped=0
for program in "$@"; do
    name=$(basename "$program")
    log=$build/tests/$name.log
    start=$(date +%s)
    case $program in
    *.sh) sh "$program" "$build" >"$log" 2>&1 </dev/null ;;
    *) "$program" >"$log" 2>&1 </dev/null ;;
    esac
    status=$?
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        line="0 passed, 1 failed, 0 skipped"
        echo "$name: ended with status $status and no count"
    fi
    p=$(echo "$line" | cut -d' ' -f1)
    f=$(echo "$line" | cut -d' ' -f3)
    s=$(echo "$line" | cut -d' ' -f5)
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "$name: $p passed, $f failed, $s skipped ($(($(date +%s) - start)) s)"
    [ "$f" -ne 0 ] && tail -n 40 "$log"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
