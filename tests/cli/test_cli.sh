#!/bin/sh
# test_cli.sh BUILD - the command: trains, saves, generates in a second process, stops cleanly on
# Ctrl-C, and answers every mistake with a message and the right status.
. tests/test.sh
. tests/cli/command.sh
build=$1
quern=$build/quern
small="--layers 1 --width 16 --heads 2 --context 16 --batch 4 --seed 3"
model=$scratch/model.safetensors

# shellcheck disable=SC2086
train() { "$quern" train --text "$text" --out "$model" $small "$@"; }

check help status_is 0 "$quern" --help
check version status_is 0 "$quern" --version
check machine status_is 0 "$quern" machine
check machine_prints_fields grep -q '^page_parallel_read_gain [0-9]' "$scratch/stdout"
cp "$scratch/stdout" "$scratch/record"
check machine_takes_what_it_prints status_is 0 env QN_MACHINE="$scratch/record" "$quern" machine
check machine_takes_a_family status_is 0 env QN_MACHINE=apple-m "$quern" machine
check machine_has_the_familys_line grep -q '^line 128 ' "$scratch/stdout"
check machine_refuses_nonsense status_is 1 env QN_MACHINE=zen99 "$quern" machine
check machine_measures_only_cpu status_is 1 "$quern" machine --measure --device null
check machine_lists_families status_is 0 "$quern" machine --families
check machine_knows_zen4 grep -q '^zen4 ' "$scratch/stdout"
check devices status_is 0 "$quern" devices
check devices_lists_the_oracle grep -q '^ref .*(opens here)$' "$scratch/stdout"
if grep -q '^opencl .*(opens here)$' "$scratch/stdout"; then
    check devices_says_which_one_opencl_opens \
        grep -qE '^ +[0-9]+:[0-9]+, .+ of .+: [0-9]+ units, groups of' "$scratch/stdout"
else
    skip devices_says_which_one_opencl_opens "no OpenCL device"
    check devices_says_why_not grep -A 1 '^opencl .*(does not open here)$' "$scratch/stdout"
fi
# A driver that ends its process is a device that is not there.
echo 'void abort(void); static void __attribute__((constructor)) end(void) { abort(); }' >"$scratch/end.c"
if ${CC:-cc} -shared -fPIC -o "$scratch/end.so" "$scratch/end.c"; then
    check devices_survives_a_driver status_is 0 env QN_OPENCL_LIBRARY="$scratch/end.so" "$quern" devices
    check devices_names_the_driver grep -q '^opencl .*ends the process' "$scratch/stdout"
    check devices_goes_on_behind_it grep -q '^null ' "$scratch/stdout"
fi
check no_command status_is 2 "$quern"
check unknown_command status_is 2 "$quern" fly
for command in train generate chat perplexity serve export tune wisdom view devices machine; do
    check "help_of_$command" status_is 0 "$quern" $command --help
done
usage() { # usage COMMAND WORDS: what it takes without a name
    "$quern" "$1" --help | grep -qxF "usage: quern $1 $2 [options]"
}
for command in info replay view; do check "usage_of_$command" usage $command FILE; done
for command in generate chat perplexity serve run; do check "usage_of_$command" usage $command '[MODEL]'; done
check usage_of_convert usage convert 'IN OUT'
check man_page_names_every_option sh -c "for c in train generate chat perplexity serve export tune wisdom view; do
    $quern \$c --help | sed -n 's/^  --\\([a-z-]*\\).*/\\1/p' | grep -v help | while read -r o; do
        sed 's/\\\\\\\\-/-/g; s/\\\\-/-/g' docs/quern.1 | grep -q -- \"--\$o\" || { echo \"--\$o\"; exit 1; }
    done || exit 1
done"

check train status_is 0 train --steps 30
last_line() { tail -n 1 "$scratch/stdout" | grep -qE "$1"; }
check ends_with_the_held_out_loss last_line '^held-out loss: [0-9]+\.[0-9]{3} nats/char$'
check draws_the_curve grep -q 'training loss' "$scratch/stdout"
check reports_progress grep -q 'tokens/s' "$scratch/stderr"
check generate status_is 0 "$quern" generate --model "$model" --prompt "line " --length 40 --seed 5
check generates_as_many_as_asked sh -c "[ \$(head -c -1 $scratch/stdout | wc -m) -eq 45 ]"
cp "$scratch/stdout" "$scratch/first"
check generates_again status_is 0 "$quern" generate --model "$model" --prompt "line " --length 40 --seed 5
check same_seed_same_text cmp "$scratch/stdout" "$scratch/first"
check greedy status_is 0 "$quern" generate --model="$model" --temperature=0 --length=5
check few status_is 0 "$quern" generate --model "$model" --top 2 --length 5
check options_stand_before_a_model status_is 0 "$quern" generate --length 40 --seed 5 "$model" --prompt "line "
check and_count_there cmp "$scratch/stdout" "$scratch/first"
check one_model_is_taken status_is 2 "$quern" generate "$model" "$model"
check exports status_is 0 "$quern" export --model "$model" --out "$scratch/gpt.c" --blob "$scratch/gpt.bin"
check export_names_sizes grep -q "define GPT_ARENA_BYTES" "$scratch/gpt.h"
check export_needs_a_model status_is 2 "$quern" export
check exports_onnx status_is 0 "$quern" export --model "$model" --out "$scratch/gpt.onnx" --blob gpt.data
check exported_onnx_has_names sh -c "$quern run $scratch/gpt.onnx --info | grep -q 'ids'"
check its_parameters_are_beside test -s "$scratch/gpt.data"
check onnx_data_is_beside status_is 1 "$quern" export --model "$model" --out "$scratch/b.onnx" --blob "$scratch/b.data"
check export_needs_a_c_file status_is 1 "$quern" export --model "$model" --out "$scratch/gpt"

# Tuning: keeps what it finds, goes on where it ended, and its kernels may be dumps.
wisdom=$scratch/wisdom
tuned() { QN_CACHE=off QN_WISDOM=$wisdom "$quern" "$@"; }
cat >"$scratch/kernels" <<'END'
kernel "double" {
  arg a0 f32[5000] write
  arg a1 f32[5000] read
  for i < 5000 {
    a0[i] = add(a1[i], a1[i])
  }
}
kernel "triple" {
  arg a0 f32[300] write
  arg a1 f32[300] read
  for i < 300 {
    a0[i] = mul(a1[i], f32(3))
  }
}
END
check lists_its_cases status_is 0 "$quern" tune --list
check tunes_kernels status_is 0 tuned tune --kernels "$scratch/kernels" --seconds 1 --threads 1
check says_what_it_tuned sh -c "grep -q ' double$' $scratch/stdout && grep -q ' triple$' $scratch/stdout"
check draws_no_bar_but_on_terminals sh -c "! [ -s $scratch/stderr ]"
check tunes_them_once status_is 0 tuned tune --kernels "$scratch/kernels" --seconds 1 --threads 1
check has_nothing_more_to_do sh -c "[ \$(grep -c ' 0 tried' $scratch/stdout) -eq 2 ]"
check shows_wisdom status_is 0 tuned wisdom --schedules
check shows_every_kernel grep -q '^2 kernels' "$scratch/stdout"
check exports_wisdom status_is 0 tuned wisdom --export "$scratch/carried"
check exports_what_is_kept cmp "$scratch/carried" "$wisdom"
mv "$wisdom" "$wisdom.old"
check imports_wisdom status_is 0 tuned wisdom --import "$scratch/carried"
check keeps_what_it_imports cmp "$scratch/carried" "$wisdom"
head -c 300 "$scratch/carried" >"$scratch/cut"
check imports_all_or_nothing status_is 1 tuned wisdom --import "$scratch/cut"
check says_which_line grep -q 'line [0-9]' "$scratch/stderr"
echo 'kernel "x" { oops' >"$scratch/bad"
check bad_kernel status_is 1 tuned tune --kernels "$scratch/bad"
check no_kernels status_is 1 tuned tune --kernels "$scratch/nowhere"
check no_case status_is 1 tuned tune --case nothing_like_that
interrupted_tuning() { # Ctrl-C once a candidate was measured
    QN_CACHE=off QN_WISDOM=$wisdom QN_DEBUG=s "$quern" tune --case softmax_128 --threads 1 \
        --seconds 1000 >"$scratch/stdout" 2>"$scratch/stderr" &
    pid=$!
    for _ in $(seq 600); do
        grep -q ' measured, ' "$scratch/stderr" && break
        sleep 0.1
    done
    kill -INT $pid
    wait $pid
}
check stops_tuning_when_interrupted interrupted_tuning
check keeps_what_it_found sh -c "QN_WISDOM=$wisdom $quern wisdom | grep -q '^3 kernels'"

check json status_is 0 train --steps 5 --json
check json_is_objects sh -c "[ \$(grep -c '^{.*}\$' $scratch/stdout) -eq 7 ] && [ \$(wc -l <$scratch/stdout) -eq 7 ]"
if command -v python3 >/dev/null; then
    check json_parses python3 -c "
import json, sys
rows = [json.loads(line) for line in open('$scratch/stdout')]
assert [r['step'] for r in rows[1:-1]] == [1, 2, 3, 4, 5], rows
assert all(0 < r['loss'] < 10 for r in rows[1:-1])
assert 0 < rows[-1]['held_out_loss'] < 10 and rows[-1]['interrupted'] is False"
else
    skip json_parses "no python3"
fi

losses() { train --steps 4 --json "$@" 2>/dev/null | grep -o '"loss":[0-9.e+-]*'; }
losses >"$scratch/a"
losses >"$scratch/b"
losses --seed 4 >"$scratch/c"
check same_seed_same_run cmp "$scratch/a" "$scratch/b"
check_fails other_seed_other_run cmp -s "$scratch/a" "$scratch/c"

interrupt() { # Ctrl-C after the first step: saved, judged, status 0, long before the last step
    rm -f "$model"
    : >"$scratch/stdout" # an earlier command's second step is none of this one's
    # shellcheck disable=SC2086
    "$quern" train --text "$text" --out "$model" $small --steps 100000000 --json >"$scratch/stdout" 2>&1 &
    process=$!
    for _ in $(seq 200); do
        grep -q '"step":2,' "$scratch/stdout" && break
        sleep 0.1
    done
    kill -INT $process
    wait $process || return 1
    [ -s "$model" ] && tail -n 1 "$scratch/stdout" | grep -q '"interrupted":true'
}
check interrupted_training_is_saved interrupt
check and_can_be_used status_is 0 "$quern" generate --model "$model" --length 3

check time_ends_it status_is 0 train --steps 100000000 --seconds 0.5
check no_text status_is 2 "$quern" train
check no_model status_is 2 "$quern" generate
check unknown_option status_is 2 "$quern" train --speed 3
check bad_number status_is 2 train --steps many
check out_of_range status_is 2 train --steps 0
check value_missing status_is 2 "$quern" train --text
check stray_argument status_is 2 "$quern" train "$text"
check flag_with_value status_is 2 train --json=1
check missing_text status_is 1 "$quern" train --text "$scratch/absent"
check short_text status_is 1 sh -c "echo hello >$scratch/short; $quern train --text $scratch/short"
check bad_heads status_is 1 train --heads 3
check unknown_device status_is 1 train --device abacus
check no_place status_is 1 "$quern" train --text "$text" --out "$scratch/no/place" $small --steps 1
check missing_model status_is 1 "$quern" generate --model "$scratch/absent"
check text_is_no_model status_is 1 "$quern" generate --model "$text"
check unknown_character status_is 1 "$quern" generate --model "$model" --prompt '@'
head -c 3000 "$model" >"$scratch/cut"
check damaged_model status_is 1 "$quern" generate --model "$scratch/cut"
check says_where_it_is_damaged grep -q 'byte' "$scratch/stderr"
test_end
