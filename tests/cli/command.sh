# command.sh - for the tests of the command: a text to work on, and what a call ends with and says.
# shellcheck shell=sh disable=SC2154
text=$scratch/text
i=0
while [ $i -lt 60 ]; do
    echo "line $i of a text in which every line says its number, $i, twice."
    i=$((i + 1))
done >"$text"
status_is() { # status_is WANTED COMMAND...: and something is said on standard error unless 0
    wanted=$1
    shift
    "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    got=$?
    cat "$scratch/stdout" "$scratch/stderr"
    [ $got -eq "$wanted" ] && { [ "$wanted" -eq 0 ] || [ -s "$scratch/stderr" ]; }
}
