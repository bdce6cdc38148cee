#!/bin/sh
# check_symbols.sh LIBRARY HEADER... - what a release build of the shared library takes and gives:
# nothing that ends the process or prints is reachable; nothing is exported but what the headers
# declare, and all of that is; no data that can change is global; LLVM is not linked; and without its
# symbols for debuggers it takes what docs/decisions/018-size.md allows.
#
# Exempt from the rule on data: the compiler's own, and the tables of LLVM's functions. A process has
# a libLLVM once however many contexts use it, so each is looked up once, under a lock; and a loader of
# OpenCL drivers is entered by one thread at a time.
library=$1
shift
bad=0

complain() {
    echo "$library: $1"
    bad=1
}

for symbol in abort exit _exit quick_exit __assert_fail __assert printf puts putchar vprintf perror \
    __printf_chk __vprintf_chk stdout stderr; do
    nm -D --undefined-only "$library" | sed 's/@.*//' | awk '{ print $NF }' | grep -qx "$symbol" &&
        complain "takes $symbol"
done

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
declared=$(cat "$@" | tr '\n' ' ' | grep -oE 'QN_API[^;({]*\(' | grep -oE 'qn_[a-z0-9_]+ *\($' |
    tr -d ' (' | sort -u)
for symbol in $exported; do
    echo "$declared" | grep -qx "$symbol" || complain "exports $symbol, which no header declares"
done
for symbol in $declared; do
    echo "$exported" | grep -qx "$symbol" || complain "lacks $symbol, which a header declares"
done

mutable=$(objdump -t "$library" |
    awk '($4 == ".data" || $4 == ".bss" || $3 == ".data" || $3 == ".bss") && $2 != "d" { print $NF }' |
    grep -vE '^(completed\.[0-9]+|__dso_handle|__TMC_END__|_edata|_end|__bss_start|\.data|\.bss)$' |
    grep -vE '^(__cpu_model|__cpu_features2|loaded_libraries|load_lock|opening)$')
[ -n "$mutable" ] && complain "global data that can change: $(echo "$mutable" | tr '\n' ' ')"

if readelf -h "$library" | grep -q 'Machine:.*X86-64'; then
    stripped=$(mktemp) || exit 1
    strip -o "$stripped" "$library"
    size=$(wc -c <"$stripped")
    rm -f "$stripped"
    [ "$size" -le 2359296 ] || complain "takes $size bytes, more than 2.25 MiB (docs/decisions/018-size.md)"
fi

readelf -d "$library" | grep -q 'NEEDED.*LLVM' && complain "links LLVM"
[ $bad -eq 0 ] && echo "$library: $(echo "$exported" | wc -l) symbols exported, none amiss${size:+; $size bytes}"
exit $bad
