#!/bin/sh
# test_train_models.sh BUILD - models by their names: trained from a config on files, saved, killed
# and resumed to the same bits, and every mistake said with its value.
. tests/test.sh
. tests/cli/command.sh
build=$1
quern=$build/quern
out=$scratch/model.safetensors
digits="--data examples/data/digits-images.idx --labels examples/data/digits-labels.idx --scale 0.0625"
config=$scratch/config.json
echo '{"in": 64, "hidden": 32, "layers": 1, "dropout": 0.1}' >"$config"

# shellcheck disable=SC2086
mlp() { "$quern" train mlp $digits --config "$config" --out "$out" --json "$@"; }
says() { # says TEXT: on standard error
    grep -qF -- "$1" "$scratch/stderr"
}
losses() { grep -o '"loss":[0-9.e+-]*' "$1"; }
falls() { # falls FACTOR: the last loss printed is at most so much of the first
    losses "$scratch/stdout" | cut -d: -f2 |
        awk -v most="$1" 'NR == 1 { a = $1 } { b = $1 } END { exit !(b <= most * a) }'
}

page() { # the program of docs/training.md builds with models/ and the public headers alone, and learns
    sed -n '/^```c$/,/^```$/p' docs/training.md | sed '1d;$d' >"$scratch/page.c"
    case $build in *san*) san="-fsanitize=address,undefined" ;; esac
    # shellcheck disable=SC2086
    ${CC:-cc} -Wall -Wextra -Werror -Iinclude -I. "$scratch/page.c" models/*.c "$build/libquern.a" $san \
        -o "$scratch/page" -lm -ldl -pthread && "$scratch/page" | grep '^step 50  loss 0\.'
}
check the_page_is_right page
check lists_the_models status_is 0 "$quern" train --help
check names_every_model sh -c "sed -n 's/^MODEL(\(.*\))\$/\1/p' models/models.h | while read -r m; do
    grep -q \"^  \$m  *[a-zA-Z]\" $scratch/stdout || exit 1; done"
check help status_is 0 "$quern" train mlp --help
check help_lists_the_fields grep -q '^  hidden .*from 1 to 1048576 (256)$' "$scratch/stdout"
check man_page_names_every_option sh -c "$quern train mlp --help | sed -n 's/^  --\\([a-z-]*\\).*/\\1/p' |
    grep -v help | while read -r o; do
        sed 's/\\\\\\\\-/-/g; s/\\\\-/-/g' docs/quern.1 | grep -q -- \"--\$o\" || { echo \"--\$o\"; exit 1; }
    done"
check trains status_is 0 mlp --steps 150 --lr 0.01
check learns falls 0.2
check counts_samples grep -q '"samples":1618,"held_out":179' "$scratch/stdout"
check judges grep -q '"held_out_loss":0\.[0-9]' "$scratch/stdout"
check saves_pytorchs_names sh -c "$quern info $out | grep -q '\\[32, 64\\] 0.weight'"
check saves_its_config sh -c "$quern info $out | grep -q 'quern.config = .\"in\":64,\"hidden\":32'"
check leaves_no_checkpoint test ! -e "$out.checkpoint"
check set_comes_behind_the_file status_is 0 mlp --steps 1 --set hidden=16 --set=layers=2
check and_each_counts sh -c "$quern info $out | grep -q '\\[16, 16\\] 3.weight'"
# shellcheck disable=SC2086
check options_stand_before_the_name status_is 0 "$quern" train $digits --json --steps=2 --config "$config" mlp \
    --out "$out" --set hidden=24
check and_count_there sh -c "[ \$(grep -c '\"step\":' $scratch/stdout) = 2 ] &&
    $quern info $out | grep -q '\\[24, 64\\] 0.weight'"
check one_step_without_json status_is 0 sh -c "$quern train mlp $digits --config $config --out $out --steps 3"
check says_what_it_made grep -q 'saved as' "$scratch/stdout"
check time_ends_it status_is 0 mlp --steps 100000000 --seconds 0.5
check after_some_steps sh -c "[ \$(grep -c '\"step\"' $scratch/stdout) -gt 1 ]"
defaults() { # of the options that the man page names: as --help has them
    "$quern" train mlp --help >"$scratch/stdout"
    for default in "steps 1000" "batch 32" "lr 0.001" "weight-decay 0.01"; do
        grep -q -- "^  --${default% *} .*(${default#* })\$" "$scratch/stdout" || { echo "$default"; return 1; }
        sed 's/\\-/-/g' docs/quern.1 | grep -A 1 "^\.B --${default% *}\$" | grep -qE "^${default#* }[ ,.]" || return 1
    done
}
check man_page_has_its_defaults defaults

mlp --steps 8 2>/dev/null >"$scratch/a"
mlp --steps 8 2>/dev/null >"$scratch/b"
mlp --steps 8 --seed 2 2>/dev/null >"$scratch/c"
losses "$scratch/a" >"$scratch/a.losses"
losses "$scratch/b" >"$scratch/b.losses"
losses "$scratch/c" >"$scratch/c.losses"
check same_seed_same_run cmp "$scratch/a.losses" "$scratch/b.losses"
check_fails other_seed_other_run cmp -s "$scratch/a.losses" "$scratch/c.losses"

# Mistakes: what, where, and its value.
check no_such_model status_is 2 "$quern" train perceptron --data x
check names_the_models says 'there are mlp resnet18'
check no_data status_is 2 "$quern" train mlp
check missing_data status_is 1 "$quern" train mlp --data "$scratch/absent.npz"
check names_the_file says "$scratch/absent.npz"
check missing_config status_is 1 "$quern" train mlp --data x --config "$scratch/absent.json"
check names_the_config says "$scratch/absent.json: No such file"
bad() { # bad NAME JSON TEXT: a config that is refused with the text
    echo "$2" >"$scratch/bad.json"
    check "$1" status_is 1 "$quern" train mlp --data x --config "$scratch/bad.json"
    check "$1_is_said" says "bad.json: $3"
}
bad unknown_field '{"widht": 3}' 'line 1: mlp has no field "widht", it has in, hidden, layers, classes, dropout'
bad field_out_of_range '{"hidden": 0}' 'line 1: mlp: hidden is 0, not from 1 to 1048576'
bad field_of_a_fraction '{"hidden": 2.5}' 'line 1: mlp: hidden is "2.5", not a whole number from 1 to 1048576'
bad field_of_text '{"hidden": "9"}' 'line 1: mlp: hidden is "9", not a whole number from 1 to 1048576'
bad field_of_a_list '{
 "dropout": [0]}' 'line 2: mlp: dropout is "[..]", not a number from 0 to 0.95'
bad field_of_nothing '{"hidden": null}' 'line 1: mlp: hidden is "null", not a whole number'
bad broken_json '{"hidden": 9' 'line 2: '
bad no_object '[1]' 'not an object of fields'
printf '{"layers": 4,\n "width": 128}' >"$scratch/bad.json"
check fields_that_do_not_go_together status_is 1 "$quern" train gpt2 --data "$text" --config "$scratch/bad.json"
check fields_that_do_not_go_together_are_said says \
    'bad.json: line 2: gpt2: a width of 128 does not divide into 12 heads; set heads, too'
check bad_set status_is 1 "$quern" train mlp --data x --set hidden
check bad_set_is_said says '--set hidden: not field=value'
check bad_set_value status_is 1 "$quern" train mlp --data x --set dropout=2
check bad_set_value_is_said says '--set: mlp: dropout is 2, not from 0 to 0.95'
check bad_method status_is 1 mlp --method newton
check bad_method_is_said says '--method newton: there are sgd adam adamw'
check wrong_shape status_is 1 mlp --set in=63
check wrong_shape_is_said says 'mlp: images is [32, 64], not [N, in = 63]'
check wrong_label status_is 1 mlp --set classes=9
check wrong_label_is_said says 'a number of labels is 9, not from 0 to 8, which is classes less 1'
check no_labels status_is 1 "$quern" train mlp --data examples/data/digits-images.idx
check no_labels_is_said says 'has array, mlp takes images labels'
check text_for_arrays status_is 1 "$quern" train mlp --data "$text"
check text_for_arrays_is_said says "$text: not a safetensors file, it looks like text; mlp learns arrays of an npz, npy"
check few_samples status_is 1 mlp --batch 2000
check few_samples_is_said says '1618 samples to train with are too few for batches of 2000'
check no_place status_is 1 "$quern" train mlp --data x --out "$scratch/no/place"

# Arrays by their names in one file, or by their places in two.
few="--set in=12 --set hidden=16 --set classes=3 --batch 4 --held-out 0 --lr 0.01 --steps 100 --json --out $out"
check writes_arrays "$build/tests/test_models" --batch mlp "$scratch/both.npz"
check writes_images "$build/tests/test_models" --batch mlp "$scratch/images.npy" images
check writes_labels "$build/tests/test_models" --batch mlp "$scratch/labels.npy" labels
# shellcheck disable=SC2086
check trains_on_npz status_is 0 "$quern" train mlp --data "$scratch/both.npz" $few
losses "$scratch/stdout" >"$scratch/a.losses"
check learns_the_npz falls 0.5
# shellcheck disable=SC2086
check trains_on_npy status_is 0 "$quern" train mlp --data "$scratch/images.npy" --labels "$scratch/labels.npy" $few
losses "$scratch/stdout" >"$scratch/b.losses"
check the_same_data_the_same_run cmp "$scratch/a.losses" "$scratch/b.losses"

# A text, as bytes and windows. The config that docs/training.md shows is one.
sed -n 's/^    \({"vocabulary": 256.*}\)$/\1/p' docs/training.md >"$scratch/small.json"
check learns_as_the_page_says status_is 0 "$quern" train gpt2 --data "$text" --config "$scratch/small.json" \
    --out "$out" --steps 1 --batch 4
check help_of_a_language_model status_is 0 "$quern" train gpt2 --help
check help_says_what_a_batch_is grep -qxF 'It takes ids [N, context or less], targets [N, context or less].' \
    "$scratch/stdout"
check help_says_what_bytes_are grep -q '256 different tokens' "$scratch/stdout"
tiny="--set vocabulary=256 --set context=16 --set width=16"
# shellcheck disable=SC2086
lstm() { "$quern" train lstm --data "$text" $tiny --set hidden=16 --batch 4 --out "$out" --json "$@"; }
check trains_on_a_text status_is 0 lstm --steps 80 --lr 0.02
check learns_the_text falls 0.8
check long_window status_is 1 lstm --window 17
check long_window_is_said says '--window 17 is beyond the context of 16'
check bad_tokens status_is 1 lstm --tokens u7
check bad_tokens_is_said says '--tokens u7: not u8, u16 or i32'
check small_vocabulary status_is 1 lstm --set vocabulary=100
check small_vocabulary_is_said says 'not from 0 to 99, which is vocabulary less 1'

# Killed while it trains, more than once; what goes on comes to the very same model.
killed() { # killed STEPS COMMAND...: some steps more than there were, then SIGKILL
    steps=$1
    shift
    : >"$scratch/part"
    "$@" --checkpoint 0.001 >"$scratch/part" 2>"$scratch/stderr" &
    for _ in $(seq 3000); do
        [ "$(grep -c '"step"' "$scratch/part")" -ge "$steps" ] && [ -s "$out.checkpoint" ] && break
        sleep 0.01
    done
    kill -KILL "$(pgrep -P $! -x quern || echo $!)"
    wait $! 2>/dev/null
    [ -s "$out.checkpoint" ] && ! [ -e "$out" ]
}
goes_on() { # goes_on COMMAND...
    rm -f "$out" "$out.checkpoint"
    "$@" >"$scratch/whole" 2>"$scratch/stderr" || return 1
    mv "$out" "$scratch/wanted"
    killed 3 "$@" || return 1
    killed 2 "$@" --resume || return 1
    "$@" --resume >"$scratch/rest" 2>"$scratch/stderr" || return 1
    losses "$scratch/whole" | tail -n 2 >"$scratch/a"
    losses "$scratch/rest" | tail -n 2 >"$scratch/b"
    cmp "$scratch/a" "$scratch/b" && cmp "$out" "$scratch/wanted" && ! [ -e "$out.checkpoint" ]
}
# Models that draw noise, have two optimizers, mask their tokens, or take a graph.
# shellcheck disable=SC2086
gan() {
    "$quern" train gan $digits --set channels=1 --set image=8 --set width=2 --set latent=4 --batch 8 --out "$out" \
        --json "$@"
}
# shellcheck disable=SC2086
bert() {
    "$quern" train bert --data "$text" $tiny --set vocabulary=257 --set mask=256 --set layers=1 --set heads=2 \
        --set hidden=16 --batch 4 --out "$out" --json "$@"
}
# shellcheck disable=SC2086
dit() {
    "$quern" train dit $digits --set channels=1 --set image=8 --set patch=4 --set layers=1 --set heads=2 \
        --set width=16 --set classes=10 --batch 8 --out "$out" --json "$@"
}
check writes_a_graph "$build/tests/test_models" --batch gcn "$scratch/graph.npz"
gcn() { "$quern" train gcn --data "$scratch/graph.npz" --set features=6 --set classes=3 --out "$out" --json "$@"; }
check trains_on_a_graph status_is 0 gcn --steps 100 --lr 0.05
check learns_the_graph falls 0.9
check judges_the_other_nodes grep -q '"held_out_loss":[0-9]' "$scratch/stdout"
check bad_edge status_is 1 gcn --set classes=2
check bad_edge_is_said says 'a number of y is 2, not from 0 to 1, which is classes less 1'
check no_graph status_is 1 "$quern" train gcn --data "$scratch/wanted"
check killed_gan_goes_on goes_on gan --steps 100
check killed_bert_goes_on goes_on bert --steps 100
check killed_dit_goes_on goes_on dit --steps 150
check dit_keeps_its_places sh -c "$quern info $out | grep -q pos_embed"
check killed_gcn_goes_on goes_on gcn --steps 300
check begins_with_weights status_is 0 gcn --steps 1 --init "$scratch/wanted"
check weights_of_another_shape status_is 1 gcn --steps 1 --init "$scratch/wanted" --set hidden=8
check weights_of_another_shape_are_said says "--init $scratch/wanted: module: \"conv1.bias\" has another shape"
check killed_mlp_goes_on goes_on mlp --steps 400
check killed_lstm_goes_on goes_on lstm --steps 150
# shellcheck disable=SC2086
resnet() {
    "$quern" train resnet18 $digits --set channels=1 --set classes=10 --set width=2 --set small=1 --batch 8 \
        --out "$out" --json "$@"
}
check killed_resnet_goes_on goes_on resnet --steps 120
check resnet_keeps_its_statistics sh -c "$quern info $out | grep -q 'layer4.1.bn2.running_var'"

# The models as their files have them: looked at, written as C, and no text.
sees() { # sees MODEL: a page and C of the file that its training left
    "$quern" view --out "$scratch/$1.html" "$out" && grep -q Kernels "$scratch/$1.html" &&
        "$quern" export --model "$out" --out "$scratch/$1.c" --batch 2 >"$scratch/stdout"
}
cp "$out" "$scratch/resnet18"
check resnet_is_seen sees resnet
check resnet_takes_images_of_its_size grep -q 'define RESNET_INPUT_0_SHAPE {2, 1, 8, 8}' "$scratch/resnet.h"
check resnet_takes_no_labels sh -c "[ \"\$(cat $scratch/stdout)\" = 'input_0 is images' ]"
check trains_a_gan status_is 0 gan --steps 1
check gan_is_seen sees gan
check gan_takes_noise sh -c "[ \"\$(cat $scratch/stdout)\" = 'input_0 is noise' ]"
check trains_an_lstm status_is 0 lstm --steps 1
check lstm_is_seen sees lstm
check lstm_is_onnx status_is 0 "$quern" export --model "$out" --out "$scratch/lstm.onnx"
check lstm_is_no_text status_is 1 "$quern" generate "$out"
check lstm_is_no_text_is_said says 'a model of quern train lstm; only the character-level GPT is continued'
check trains_on_digits status_is 0 mlp --steps 150 --lr 0.01
check mlp_is_seen sees mlp
cat >"$scratch/main.c" <<'END'
#include "mlp.h"
#include <stdio.h>
static _Alignas(MLP_ALIGN) char arena[MLP_ARENA_BYTES];
static unsigned char image[2][64], label[2];
int main(int argc, char **argv) { /* images and labels of IDX, behind their headers: how many are right */
    FILE *images = fopen(argv[argc - 2], "rb"), *labels = fopen(argv[argc - 1], "rb");
    int right = 0, all = 0;
    if (!images || !labels || fseek(images, 16, SEEK_SET) || fseek(labels, 8, SEEK_SET)) return 1;
    while (fread(image, 64, 2, images) == 2 && fread(label, 1, 2, labels) == 2) {
        float x[2][64], y[2][10];
        for (int i = 0; i < 128; i++) x[i / 64][i % 64] = image[i / 64][i % 64] * 0.0625f;
        mlp_run(*x, *y, arena);
        for (int k = 0; k < 2; k++, all++) {
            int best = 0;
            for (int i = 1; i < 10; i++) best = y[k][i] > y[k][best] ? i : best;
            right += best == label[k];
        }
    }
    printf("%d of %d\n", right, all);
    return all < 1700 || right < all * 9 / 10;
}
END
reads_digits() {
    ${CC:-cc} -O1 -std=c11 -ffp-contract=off -Wall -Werror "$scratch/main.c" "$scratch/mlp.c" -o "$scratch/main" -lm &&
        "$scratch/main" examples/data/digits-images.idx examples/data/digits-labels.idx
}
check as_c_it_reads_digits reads_digits
cp "$scratch/resnet18" "$out"

# What is no checkpoint of the training that is to go on.
rm -f "$out.checkpoint"
check no_checkpoint status_is 1 mlp --steps 5 --resume
cp "$out" "$out.checkpoint"
check another_models status_is 1 mlp --steps 5 --resume
check another_models_is_said says 'quern.model is resnet18, not mlp'
rm -f "$out" "$out.checkpoint"
check leaves_a_checkpoint killed 3 mlp --steps 100000
check of_another_config status_is 1 mlp --steps 100000 --resume --set hidden=16
check of_another_config_is_said says 'quern.config is {"in":64,"hidden":32'
check of_other_options status_is 1 mlp --steps 100000 --resume --lr 0.5
check of_other_options_is_said says 'quern.training is'
check of_other_data status_is 1 "$quern" train mlp --data examples/data/digits-images.idx \
    --labels examples/data/digits-labels.idx --scale 0.0625 --config "$config" --out "$out" --steps 100000 --resume \
    --batch 16
head -c 3000 "$out.checkpoint" >"$scratch/cut"
cp "$scratch/cut" "$out.checkpoint"
check cut_short status_is 1 mlp --steps 100000 --resume

interrupt() { # Ctrl-C: saved, judged, status 0
    rm -f "$out" "$out.checkpoint"
    # shellcheck disable=SC2086
    "$quern" train mlp $digits --config "$config" --out "$out" --json --steps 100000000 >"$scratch/stdout" 2>&1 &
    process=$!
    for _ in $(seq 200); do
        grep -q '"step":2,' "$scratch/stdout" && break
        sleep 0.1
    done
    kill -INT $process
    wait $process || return 1
    [ -s "$out" ] && tail -n 1 "$scratch/stdout" | grep -q '"interrupted":true'
}
check interrupted_training_is_saved interrupt
test_end
