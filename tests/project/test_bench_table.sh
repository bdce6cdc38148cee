#!/bin/sh
# test_bench_table.sh BUILD - what `make bench-peers` measured becomes the table of its kind of machine in
# docs/performance.md, and nothing else there changes. Means are worked out by hand: of 0.5 and 2 it is 1.
. tests/test.sh
build=$1
command -v python3 >/dev/null || {
    skip bench_table "no python3"
    test_end
    exit
}

page=$scratch/page.md
run() { # run FAMILY DATE WHOLE: the results of a run on a machine of that family
    cat >"$scratch/versus.jsonl" <<END
{"machine":"$1","about":"Zen 3","processor":"AMD EPYC","cores":2,"date":"$2","whole":$3,"quick":true,"rounds":3}
{"case":"gemm/512","threads":1,"quern":2e-3,"ratio":0.5,"limit_ratio":0.25,"samples":3,"quiet":1,"peers":{"jax":1e-3}}
{"case":"gemm/64","threads":1,"quern":2e-6,"ratio":2,"limit_ratio":1,"samples":3,"quiet":3,"peers":{"blis":4e-6}}
{"case":"gemm/512","threads":2,"quern":1e-3,"ratio":0.9,"limit_ratio":0.8,"samples":3,"quiet":0,"peers":{}}
{"case":"conv/3x3","threads":1,"quern":0,"ratio":0,"limit_ratio":0,"samples":0,"quiet":0,"peers":{}}
{"case":"latency/compile","threads":1,"quern":4.4e-3,"ratio":0,"limit_ratio":0,"samples":3,"quiet":2,"peers":{}}
END
}
write() { python3 tools/bench_table.py --commit abc1234 "$scratch/versus.jsonl" "$page"; }
written() { # written FAMILY DATE [WHOLE]
    run "$1" "$2" "${3:-true}"
    write
}
has() { # has N LINE: the page has the whole line N times
    [ "$(grep -cxF -- "$2" "$page")" -eq "$1" ] || { cat "$page"; return 1; }
}
has_part() { grep -F -- "$1" "$page" || { cat "$page"; return 1; }; }
order() { # the tables of the page, by name
    [ "$(sed -n 's/^### \(.*\):.*/\1/p' "$page" | tr '\n' ' ')" = "$1" ] || { cat "$page"; return 1; }
}
same() { cmp "$scratch/kept" "$page"; }
outside() { sed '/bench-peers writes: begin/,/bench-peers writes: end/d' "$1"; }
unharmed() { # what is not between the marks is that of the page in the tree
    outside docs/performance.md >"$scratch/before"
    outside "$page" >"$scratch/after"
    cmp "$scratch/before" "$scratch/after"
}

cp docs/performance.md "$page"
check writes_a_run written testbed 2026-01-02
check a_family_has_the_geometric_mean_and_its_worst_case has 1 \
    '| gemm | 1.00 | 0.50 | 0.90 | 0.80 | 512: 0.50, on two threads 512: 0.90 |'
check a_time_without_peer_is_a_time has 1 '| latency |  |  |  |  | compile 4.4 ms |'
check a_case_without_number_is_told has 1 '| conv |  |  |  |  | 1 without a number |'
check machine_date_and_commit_are_named has_part '2026-01-02 at abc1234, AMD EPYC, 2 cores'
check peers_are_named has_part 'beside blis, jax.'
check quiet_samples_are_counted has_part '6 of 12 samples quiet'
check words_by_hand_stay unharmed

printf '%s\n' '# P' '<!-- tables that make bench-peers writes: begin -->' \
    '<!-- tables that make bench-peers writes: end -->' 'by hand' >"$page"
check takes_a_page_without_tables written zen3 2026-01-02
check writes_another_machine written alder 2026-01-03
check machines_stand_by_name order 'alder zen3 '
check a_newer_run_is_written written zen3 2026-02-03
check a_newer_run_replaces_its_machines_table order 'alder zen3 '
check the_older_run_is_gone has 0 '2026-01-02'
check the_other_machine_keeps_its_table has_part '2026-01-03 at abc1234'
check the_newer_run_is_there has_part '2026-02-03 at abc1234'
check text_behind_the_tables_stays has 1 'by hand'
cp "$page" "$scratch/kept"
check the_same_run_again written zen3 2026-02-03
check changes_nothing same
check a_run_of_some_cases_is_no_error written zen3 2026-03-04 false
check a_run_of_some_cases_changes_nothing same
echo '# P' >"$page"
run zen3 2026-01-02 true
check_fails refuses_a_page_without_marks write
: >"$scratch/versus.jsonl"
check_fails refuses_results_of_no_run write

# What the program itself writes has what the table asks for.
peers=$build/bench/peers
head_of_a_run() {
    "$peers" -o "$scratch/run" -t 1 -c neg -f cached -p none -n 1 -s 1 --quick || return 1
    mv "$scratch/run/versus.jsonl" "$scratch"
    cp docs/performance.md "$page"
    cp docs/performance.md "$scratch/kept"
    write && same || return 1
    sed '1s/"whole":false/"whole":true/' "$scratch/versus.jsonl" >"$scratch/whole.jsonl"
    mv "$scratch/whole.jsonl" "$scratch/versus.jsonl"
    write && grep -q '^| cached | ' "$page" && has_part "$(date +%F) at abc1234"
}
if [ -x "$peers" ]; then
    check a_run_of_one_case_can_be_written head_of_a_run
else
    skip a_run_of_one_case_can_be_written "no $peers (make $peers)"
fi
test_end
