#!/bin/sh
# run_tests.sh BUILD PROGRAM... - run each test program (or .sh script, which is given BUILD), TEST_JOBS
# (as many as there are cores) beside each other, print a line for each as it ends and the log of one that
# fails, and end with "N passed, N failed, N skipped". A program that crashes, or prints no count of its
# own, counts as one failure.
build=$1
shift
mkdir -p "$build/tests"
# PoCL, where it stands in for an OpenCL device, keeps what it compiles here and not in the home.
POCL_CACHE_DIR=$(cd "$build" && pwd)/pocl
export POCL_CACHE_DIR
mkdir -p "$POCL_CACHE_DIR"

run_one() { # run_one PROGRAM: its count goes to a file of its own, for several run at a time
    program=$1
    name=$(basename "$program")
    log=$build/tests/$name.log
    start=$(date +%s)
    case $program in
    *.sh) sh "$program" "$build" >"$log" 2>&1 </dev/null ;;
    *) "$program" >"$log" 2>&1 </dev/null ;;
    esac
    status=$?
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    why=
    if [ -z "$line" ]; then
        line="0 passed, 1 failed, 0 skipped"
        why="$name: ended with status $status and no count
"
    fi
    # shellcheck disable=SC2086
    set -- $line
    p=$1 f=$3 s=$5
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    echo "$p $f $s" >"$build/tests/$name.count"
    tail=
    [ "$f" -ne 0 ] && tail=$(tail -n 40 "$log")
    printf '%s%s: %s passed, %s failed, %s skipped (%s s)\n%s' "$why" "$name" "$p" "$f" "$s" \
        "$(($(date +%s) - start))" "${tail:+$tail
}"
}

if [ "$1" = --one ]; then
    run_one "$2"
    exit 0
fi

counts=
for program in "$@"; do
    count=$build/tests/$(basename "$program").count
    rm -f "$count"
    counts="$counts $count"
done
jobs=${TEST_JOBS:-$(nproc 2>/dev/null || echo 1)}
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh "$0" "$build" --one

# A program of which there is no count was not run to its end.
passed=0 failed=0 skipped=0
for count in $counts; do
    p=0 f=1 s=0
    [ -f "$count" ] && read -r p f s <"$count"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
