#!/bin/sh
# cover.sh BUILD - libFuzzer over every parser for COVER_SECONDS (30), from a corpus that fuzz_parse makes
# and that is kept in BUILD, so that the next run goes on with what this one found to reach more.
build=$1
seconds=${COVER_SECONDS:-30}
corpus=$build/corpus
[ -d "$corpus" ] || "$build/tests/fuzz_parse" --corpus "$corpus" 20 || exit 1
"$build/tests/cover_parse" -max_total_time="$seconds" -max_len=8192 -timeout=20 -rss_limit_mb=4096 \
    -print_final_stats=1 -verbosity=1 -artifact_prefix="$build/" "$corpus" >"$build/cover.log" 2>&1
status=$?
tail -n 12 "$build/cover.log"
exit $status
