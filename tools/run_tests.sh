#!/bin/sh
# Run each test program given, print what fails, and end with "N passed, N failed, N skipped".
# A program that crashes or prints no count counts as one failure.
build=$1
shift
passed=0 failed=0 skipped=0
for program in "$@"; do
    log=$build/tests/$(basename "$program").log
    start=$(date +%s)
    "$program" >"$log" 2>&1
    status=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        line="0 passed, 1 failed, 0 skipped"
        echo "$(basename "$program"): ended with status $status and no count"
    fi
    set -- "$@"
    p=$(echo "$line" | cut -d' ' -f1) f=$(echo "$line" | cut -d' ' -f3) s=$(echo "$line" | cut -d' ' -f5)
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "$(basename "$program"): $p passed, $f failed, $s skipped ($(($(date +%s) - start)) s)"
    [ "$f" -ne 0 ] && tail -n 40 "$log"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
