# test.sh - the harness of test scripts, as test.h is that of programs. A script sources it, calls
# `check NAME COMMAND...` (passes when the command succeeds), `check_fails NAME COMMAND...` (when it
# ends with an error) or `skip NAME WHY`, and ends with `test_end`. What a failing command printed
# is shown. $scratch is a folder of its own, removed at the end. Nothing is kept in the user's disk cache.
export QN_CACHE=off
passed=0 failed=0 skipped=0
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

outcome() { # outcome NAME STATUS WANTED
    if [ "$2" "$3" 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1 (status $2)"
        tail -n 15 "$scratch/.out"
    fi
}
check() {
    name=$1
    shift
    "$@" >"$scratch/.out" 2>&1
    outcome "$name" $? -eq
}
check_fails() {
    name=$1
    shift
    "$@" >"$scratch/.out" 2>&1
    outcome "$name" $? -ne
}
skip() {
    echo "skip $1: $2"
    skipped=$((skipped + 1))
}
test_end() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed -eq 0 ]
}
