#!/bin/sh
# test_cli_files.sh BUILD - what the command does to files and with signals: where results are to go is
# looked at before hours are spent, a training that is killed goes on from its checkpoint as if nothing
# had been, what cannot be written is said, and text that nothing can be made of is refused.
. tests/test.sh
. tests/cli/command.sh
build=$1
quern=$build/quern
small="--layers 1 --width 16 --heads 2 --context 16 --batch 4 --seed 3"
model=$scratch/model.safetensors

says() { grep -q "$1" "$scratch/stderr" || { cat "$scratch/stderr" && false; }; }
# shellcheck disable=SC2086
train() { "$quern" train --text "$text" --out "$model" $small "$@"; }
waits_for() { # waits_for FILE PATTERN
    for _ in $(seq 200); do
        grep -q "$2" "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    return 1
}

# Where the model is to go. A text that does not exist would be noticed later.
refuses_out() { # refuses_out OUT
    status_is 1 "$quern" train --text "$scratch/absent" --out "$1" && ! says absent >/dev/null
}
mkdir "$scratch/folder"
mkfifo "$scratch/pipe"
check out_is_a_folder refuses_out "$scratch/folder"
check out_is_in_no_folder refuses_out "$scratch/no/place"
check out_is_a_device refuses_out /dev/full
check says_that_it_is_a_device says 'it is a device'
check out_is_a_pipe refuses_out "$scratch/pipe"
mkdir "$scratch/folder/m.checkpoint"
check its_checkpoint_is_a_folder refuses_out "$scratch/folder/m"
check and_nothing_is_left sh -c "! ls -a $scratch $scratch/folder | grep part"
ln -s real.safetensors "$scratch/link.safetensors"
# shellcheck disable=SC2086
check out_is_a_link status_is 0 "$quern" train --text "$text" --out "$scratch/link.safetensors" $small --steps 2
check the_link_stays sh -c "[ -L $scratch/link.safetensors ] && [ -s $scratch/real.safetensors ]"
chmod 640 "$scratch/real.safetensors"
# shellcheck disable=SC2086
check again status_is 0 "$quern" train --text "$text" --out "$scratch/link.safetensors" $small --steps 2
check the_mode_stays sh -c "[ \$(stat -c %a $scratch/real.safetensors) = 640 ]"

# The other results: nothing that would be noticed later is there, neither text nor model nor recording.
first() { # first PATTERN COMMAND...: refused for where its result is to go, and before it reads anything
    pattern=$1
    shift
    status_is 1 "$quern" "$@" && says "$pattern" && ! says absent >/dev/null
}
absent=$scratch/absent
refuses() { # refuses NAME PATTERN PLACE: of each command that writes a file at its end
    check "curve_$1" first "$3.*$2" train --text "$absent" --out "$model" --curve "$3"
    check "page_$1" first "$3.*$2" view "$absent" --out "$3"
    check "page_of_a_model_$1" first "$3.*$2" view "$absent.safetensors" --out "$3"
    check "conversion_$1" first "$3.*$2" convert "$absent" "$3" --kind gguf
    check "blob_$1" first "$3.*$2" export --model "$absent" --out "$scratch/e.c" --blob "$3"
}
refuses is_a_folder 'it is a folder' "$scratch/folder"
refuses is_in_no_folder 'No such file or directory' "$scratch/no/place"
refuses is_a_device 'it is a device' /dev/full
refuses is_a_pipe 'it is a pipe' "$scratch/pipe"
mkdir "$scratch/d.c" "$scratch/f.h"
check exported_c_is_a_folder first 'd.c: it is a folder' export --model "$absent" --out "$scratch/d.c"
check its_header_is_a_folder first 'f.h: it is a folder' export --model "$absent" --out "$scratch/f.c"
check curve_is_the_model first 'are one file' train --text "$absent" --out "$model" --curve "$model"
# shellcheck disable=SC2086
check endless_text status_is 1 timeout 60 "$quern" train --text /dev/zero --out "$model" $small --steps 2
check says_that_it_is_too_large says 'File too large'
check exported_c_is_no_c first 'no path of a .c file' export --model "$absent" --out "$scratch/e"

# A model that is a constant, and where its value goes.
{
    printf '\010\010:@\012*\022\001y\042\010Constant*\033\012\014value_floats=\000\000\200?=\000'
    printf '\000\000@\240\001\006\022\001gb\017\012\001y\022\012\012\010\010\001\022\004\012\002'
    printf '\010\002B\004\012\000\020\021'
} >"$scratch/constant.onnx"
constant() { # constant STATUS PLACE
    status_is "$1" "$quern" run --model "$scratch/constant.onnx" --output "$2"
}
ln -s real.npy "$scratch/link.npy"
check output_is_a_link constant 0 "$scratch/link.npy"
check that_link_stays sh -c "[ -L $scratch/link.npy ] && [ \$(wc -c <$scratch/real.npy) = 136 ]"
check output_is_a_device constant 1 /dev/full
check and_says_so says 'it is a device'

# What is there already is as it was where the work fails, and nothing else is there.
for kept in k.svg k.html k.gguf k.c k.h k.bin; do echo "of before" >"$scratch/$kept"; done
check absent_text status_is 1 "$quern" train --text "$absent" --out "$model.new" --curve "$scratch/k.svg"
check absent_recording status_is 1 "$quern" view "$absent" --out "$scratch/k.html"
check absent_archive status_is 1 "$quern" convert "$absent" "$scratch/k.gguf"
check absent_model status_is 1 "$quern" export --model "$absent" --out "$scratch/k.c" --blob "$scratch/k.bin"
check all_are_as_before sh -c "[ \$(cat $scratch/k.* | grep -c '^of before\$') = 6 ]"
check and_no_others sh -c "! ls -a $scratch $scratch/folder | grep -E 'part|new|^e\\.'"

# Standard output that takes nothing.
for command in "--help" "--version" "devices" "train --help" "tune --list"; do
    # shellcheck disable=SC2086
    check "full_output_of_$(echo "$command" | tr -d ' -')" status_is 1 sh -c "$quern $command >/dev/full"
done
check says_why_it_is_not_written says 'standard output: No space'
check full_output_of_json status_is 1 sh -c "$quern train --text $text --out $model $small --steps 2 --json >/dev/full"
check full_output_of_generate status_is 1 sh -c "$quern generate --model $model --length 3 >/dev/full"
check closed_output status_is 1 sh -c "$quern --version >&-"

# A file that would grow past the greatest size that files may have (8 blocks).
mkdir "$scratch/small"
limited() { # limited COMMAND...: a shell's limit is that of its children
    sh -c 'ulimit -f 8; "$@" 2>"$0"' "$scratch/limited" "$@"
    status=$?
    cp "$scratch/limited" "$scratch/stderr" && return $status
}
limited_fails() { limited "$quern" "$@"; test $? -eq 1; }
# shellcheck disable=SC2086
check over_the_greatest_size limited_fails train --text "$text" --out "$scratch/small/m.safetensors" \
    $small --width 64 --steps 1
check says_that_it_is_too_large says 'File too large'
check nothing_of_it_is_left sh -c "! ls -A $scratch/small | grep ."

# A signal to end.
ended_by() { # ended_by SIGNAL
    rm -f "$model"
    : >"$scratch/stdout"
    train --steps 100000000 --json >"$scratch/stdout" 2>&1 &
    waits_for "$scratch/stdout" '"step":2,' || return 1
    kill -"$1" "$(pgrep -P $! -x quern || echo $!)"
    wait $! || return 1
    [ -s "$model" ] && tail -n 1 "$scratch/stdout" | grep -q '"interrupted":true' &&
        ! [ -e "$model.checkpoint" ]
}
check int_saves ended_by INT
check term_saves ended_by TERM

# Killed after some checkpoints; what goes on from there comes to the very same model.
losses() { grep -o '"step":[0-9]*,"loss":[0-9.e+-]*' "$1"; }
killed_and_resumed() {
    train --steps 4000 --json >"$scratch/whole" 2>/dev/null || return 1
    cp "$model" "$scratch/wanted" && rm "$model"
    for round in 1 2 3; do
        [ "$round" = 1 ] && again="" || again=--resume
        # shellcheck disable=SC2086
        train --steps 4000 --json --checkpoint 0.001 $again >"$scratch/part$round" 2>"$scratch/stderr" &
        [ "$round" = 1 ] && mark='"step":60,' || mark='"step":[0-9]*0,'
        waits_for "$scratch/part$round" "$mark" || return 1
        kill -KILL "$(pgrep -P $! -x quern || echo $!)"
        wait $!
        [ -s "$model.checkpoint" ] && ! [ -e "$model" ] || return 1
    done
    "$quern" generate --model "$model.checkpoint" --length 3 >/dev/null || return 1
    train --steps 4000 --json --resume >"$scratch/rest" 2>"$scratch/stderr" || return 1
    losses "$scratch/whole" >"$scratch/a"
    losses "$scratch/rest" >"$scratch/b"
    [ -s "$scratch/b" ] && tail -n "$(wc -l <"$scratch/b")" "$scratch/a" | cmp - "$scratch/b" &&
        cmp "$model" "$scratch/wanted" && ! [ -e "$model.checkpoint" ]
}
check killed_training_goes_on_as_if_nothing_had_been killed_and_resumed
check no_checkpoint status_is 1 train --steps 5 --resume
cp "$model" "$model.checkpoint"
check a_model_is_no_checkpoint status_is 1 train --steps 50 --resume
check says_what_it_lacks says 'quern.progress'
checkpoint_of() { # one that is left by --steps 20, killed
    rm -f "$model.checkpoint"
    train --steps 100000 --json --checkpoint 0.001 >"$scratch/stdout" 2>&1 &
    waits_for "$scratch/stdout" '"step":9,' || return 1
    kill -KILL "$(pgrep -P $! -x quern || echo $!)"
    wait $!
    [ -s "$model.checkpoint" ]
}
check leaves_a_checkpoint checkpoint_of
check of_other_sizes status_is 1 train --steps 50 --resume --width 32
check says_that_sizes_differ says 'quern.config'
check with_more_steps status_is 1 train --steps 3 --resume
head -c 2000 "$model.checkpoint" >"$scratch/cut"
cp "$scratch/cut" "$model.checkpoint"
check cut_short status_is 1 train --steps 50 --resume
rm -f "$model.checkpoint"

# Kernels as text.
bad_kernel() { # bad_kernel PATTERN, the text on standard input
    cat >"$scratch/bad"
    QN_WISDOM=$scratch/wisdom timeout 20 "$quern" tune --kernels "$scratch/bad" --seconds 1 --threads 1 \
        >"$scratch/stdout" 2>"$scratch/stderr"
    [ $? -eq 1 ] && says "$1"
}
kernel() { # kernel STATEMENT
    printf 'kernel "x" {\n arg a0 f32[8] write\n arg a1 i64[8] read\n for i0 < 8 {\n  %s\n }\n}\n' "$1"
}
bad() { # bad NAME PATTERN STATEMENT
    kernel "$3" | bad_kernel "$2" >"$scratch/.out" 2>&1
    outcome "$1" $? -eq
}
bad past_the_end 'line 5.*past the end' 'a0[i0 + 100000000000] = f32(1)'
bad of_two_dtypes 'line 5.*i64 and f32' 'a0[i0] = cast:f32(add(a1[i0], f32(1)))'
bad unrolled_for_ever 'line 5.*100000000' 'unroll u < 100000000 { a0[i0] = f32(1) }'
bad run_for_ever 'line 6.*steps' 'for j < 1000000000 {
 for k < 1000000000 { a0[i0] = f32(1) } }'
printf 'kernel "x" {\n arg a0 f32[8] write\n for i < 8 {\n a0[i] = f32(1)\n }\n}\n\000' >"$scratch/nul"
check a_zero_byte status_is 1 "$quern" tune --kernels "$scratch/nul"
check says_where_it_is says 'line 7: a NUL'
test_end
