#!/bin/sh
# test_convert.sh BUILD - `quern info` and `quern convert`: a file goes from kind to kind and comes back, blocks
# are made and kept, and what is wrong is said with a status.
. tests/test.sh
. tests/cli/command.sh
build=$1
quern=$build/quern
prints() { grep -q -- "$1" "$scratch/stdout" || { cat "$scratch/stdout" && false; }; }
says() { grep -q -- "$1" "$scratch/stderr" || { cat "$scratch/stderr" && false; }; }
lists() { "$quern" info "$1" --no-metadata | sed 's/ of [a-z]*,/,/'; }
same_lists() { [ "$(lists "$1")" = "$(lists "$2")" ] && [ -n "$(lists "$1")" ]; }

model=$scratch/model.safetensors
check a_model status_is 0 "$quern" train --text "$text" --out "$model" --layers 1 --width 32 --heads 2 \
    --context 16 --batch 4 --steps 2
check info status_is 0 "$quern" info "$model"
check info_has_the_count prints 'tensors of safetensors'
check summary status_is 0 "$quern" info "$model" --summary --no-metadata
check summary_is_a_line sh -c "[ \$(wc -l <$scratch/stdout) = 1 ]"
check options_stand_before_a_file status_is 0 "$quern" info --summary "$model" --no-metadata
check and_count_there sh -c "[ \$(wc -l <$scratch/stdout) = 1 ]"
check options_stand_between_files status_is 0 "$quern" convert --kind npz "$model" --dtype f16 "$scratch/f16"
check and_all_count sh -c "'$quern' info '$scratch/f16' | grep -q '^[0-9]* tensors of npz' &&
    '$quern' info '$scratch/f16' | grep -q ^f16"

# There and back.
check to_npz status_is 0 "$quern" convert "$model" "$scratch/a.npz"
check to_gguf status_is 0 "$quern" convert "$scratch/a.npz" "$scratch/b.gguf"
check and_back status_is 0 "$quern" convert "$scratch/b.gguf" "$scratch/c.npz"
check lists_are_equal same_lists "$model" "$scratch/c.npz"
check files_are_equal cmp "$scratch/a.npz" "$scratch/c.npz"
check same_kind status_is 0 "$quern" convert "$model" "$scratch/d" --kind safetensors
check metadata_stays sh -c "'$quern' info '$model' >$scratch/1; '$quern' info '$scratch/d' | cmp - $scratch/1"

# Blocks.
check quantize status_is 0 "$quern" convert "$model" "$scratch/q.gguf" --quantize q8_0
check are_there sh -c "'$quern' info '$scratch/q.gguf' | grep -q ^q8_0"
check vectors_stay sh -c "'$quern' info '$scratch/q.gguf' | grep -q ^f32"
check blocks_stay status_is 0 "$quern" convert "$scratch/q.gguf" "$scratch/r.gguf"
check to_the_byte cmp "$scratch/q.gguf" "$scratch/r.gguf"
check as_floats status_is 0 "$quern" convert "$scratch/q.gguf" "$scratch/s.npz"
check of_the_same_shapes same_lists "$model" "$scratch/s.npz"
check narrower status_is 0 "$quern" convert "$model" "$scratch/h.safetensors" --dtype bf16
check is_narrower sh -c "'$quern' info '$scratch/h.safetensors' | grep -q ^bf16"
check narrower_in_gguf status_is 0 "$quern" convert "$model" "$scratch/h.gguf" --dtype f16
check but_vectors sh -c "'$quern' info '$scratch/h.gguf' --no-metadata >$scratch/1 &&
    grep -q '^f16 .*\[.*,' $scratch/1 && grep -q '^f32 ' $scratch/1 && ! grep '^f16 *\[[0-9]*\]' $scratch/1"

# Many keys of metadata: of a small file, and through to gguf, which has no empty ones.
keys=$(i=10; while [ $i -lt 50 ]; do printf '"key%d":"value",' $i; i=$((i + 1)); done)
header="{\"__metadata__\":{$keys\"\":\"of no name\"}}"
size=${#header}
low=$(printf '\\%03o\\%03o' $((size % 256)) $((size / 256)))
printf "$low\\0\\0\\0\\0\\0\\0%s" "$header" >"$scratch/k.safetensors"
check many_keys status_is 0 "$quern" info "$scratch/k.safetensors"
check many_keys_to_gguf status_is 0 "$quern" convert "$scratch/k.safetensors" "$scratch/k.gguf"
check many_keys_of_gguf status_is 0 "$quern" info "$scratch/k.gguf"
check many_keys_stay sh -c "[ \$(grep -c '^key.. = value' <$scratch/stdout) = 40 ]"

# What is no text does not reach the terminal: \351, the C1 control CSI as one byte and as two, a surrogate, an
# overlong escape, and half a character at the end.
printf 'GGUF\3\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k\10\0\0\0\027\0\0\0\0\0\0\0' >"$scratch/t.gguf"
printf 'a\351b\2331mc\302\2331md\355\240\200e\300\233f\303\251\342\202' >>"$scratch/t.gguf"
check text_that_is_none status_is 0 "$quern" info "$scratch/t.gguf"
check is_made_harmless prints "^k = a?b?1mc?1md???e??f$(printf '\303\251')??\$"

# Mistakes.
check no_file status_is 2 "$quern" info
check no_file_is_said says 'info: FILE: is lacking'
check one_file status_is 2 "$quern" convert "$model"
check one_file_is_said says 'convert: OUT: is lacking'
check three_files status_is 2 "$quern" convert "$model" "$scratch/x.npz" "$scratch/y.npz"
check three_files_is_said says 'y.npz: nothing more is taken'
check no_such_type status_is 2 "$quern" convert "$model" "$scratch/x.gguf" --quantize q4_k
check types_are_listed says q5_1
check no_such_dtype status_is 2 "$quern" convert "$model" "$scratch/x.gguf" --dtype i32
check blocks_are_for_gguf status_is 2 "$quern" convert "$model" "$scratch/x.npz" --quantize q8_0
check absent status_is 1 "$quern" info "$scratch/absent"
check no_kind status_is 1 "$quern" convert "$model" "$scratch/x.txt"
check kinds_are_listed says 'safetensors, gguf'
check many_tensors_in_npy status_is 1 "$quern" convert "$model" "$scratch/x.npy"
check many_tensors_in_npy_are_said says \
    "^quern convert: $scratch/x.npy: an npy file has one tensor, not [0-9]*; npz has many"
check no_archive status_is 1 "$quern" info "$text"
check nothing_is_left sh -c "! ls -a $scratch | grep -E '^x\\.|part'"
test_end
