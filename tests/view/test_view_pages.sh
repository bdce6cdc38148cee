#!/bin/sh
# test_view_pages.sh BUILD - `quern view` of recordings and models, and the pages and curves in headless Chromium, where
# there is one: nothing is said on its console, nothing is loaded, and light and dark differ as they should.
. tests/test.sh
quern=$1/quern
. tests/cli/command.sh

record() { # record NAME PROGRAM
    QN_RECORD=$scratch/$1 "$2" >/dev/null 2>&1 && [ -s "$scratch/$1" ]
}
has() { # has FILE TEXT...: all of them
    file=$scratch/$1
    shift
    for part; do
        grep -q -- "$part" "$file" || { echo "no $part"; return 1; }
    done
}
check page_names_every_category_of_traces sh -c "grep -rhoE 'trace_span\([a-z>-]+, \"[a-z]+\"' src | cut -d '\"' -f 2 |
    sort -u | while read -r c; do grep -q \"^|.*\\\`\$c\\\`.* |.* |\" docs/view.md || { echo \$c; exit 1; }; done"
check records record mlp.rec "$1/examples/03_mlp"
check views_a_recording status_is 0 "$quern" view "$scratch/mlp.rec" --out "$scratch/mlp.html"
check shows_calls_graph_and_kernels has mlp.html "The program.s calls" "The graph" "The plan" "Loops as lowered" Sched
check views_the_first_value_read status_is 0 "$quern" view "$scratch/mlp.rec" --read 1 --out "$scratch/first.html"
check options_stand_before_the_file status_is 0 "$quern" view --read 1 --out "$scratch/before.html" "$scratch/mlp.rec"
check_fails and_count cmp -s "$scratch/before.html" "$scratch/mlp.html"
check refuses_a_value_that_is_not_read status_is 1 "$quern" view "$scratch/mlp.rec" --read 100000
check records_assignments record grad.rec "$1/examples/02_grad"
check views_what_is_no_assignment status_is 0 "$quern" view "$scratch/grad.rec" --out "$scratch/grad.html"
check shows_its_gradients has grad.html ">grad<" ">assign<" "Kernels"
check trains status_is 0 "$quern" train --text "$text" --steps 3 --context 16 --layers 4 --width 32 --heads 2 \
    --checkpoint 0 --out "$scratch/m.safetensors" --curve "$scratch/loss.svg"
check draws_its_loss has loss.svg "training loss" "nats/char"
check views_a_trained_model status_is 0 "$quern" view "$scratch/m.safetensors" --out "$scratch/gpt.html"
check folds_its_layers has gpt.html "more times the same" "Memory over time"
check needs_a_file status_is 2 "$quern" view
check says_what_is_no_recording status_is 1 "$quern" view "$text"
check says_that_a_file_is_missing status_is 1 "$quern" view "$scratch/nothing.rec"
check says_where_it_cannot_write status_is 1 "$quern" view "$scratch/grad.rec" --out /nowhere/page.html
head -c 3000 "$scratch/mlp.rec" >"$scratch/cut.rec"
check a_recording_that_is_cut_has_no_value status_is 1 "$quern" view "$scratch/cut.rec"

browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v $name)
done
# shot PAGE SCHEME: into PAGE.SCHEME.png; what it says on its console into PAGE.SCHEME.log. Scheme 0 is dark, 1 light.
shot() {
    timeout 100 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
        --user-data-dir="$scratch/browser" --host-resolver-rules="MAP * ~NOTFOUND" --enable-logging=stderr \
        --blink-settings=preferredColorScheme="$2" --window-size=1100,1400 --virtual-time-budget=1000 \
        --screenshot="$scratch/$1.$2.png" "file://$scratch/$1" >"$scratch/$1.$2.log" 2>&1
    [ -s "$scratch/$1.$2.png" ] || { cat "$scratch/$1.$2.log"; return 1; }
    if grep -E 'CONSOLE|ERR_|net::' "$scratch/$1.$2.log"; then return 1; fi
}
differs() { ! cmp -s "$scratch/$1.0.png" "$scratch/$1.1.png"; }
if [ -n "$browser" ]; then
    for page in mlp.html gpt.html loss.svg; do
        check "${page}_in_the_dark" shot $page 0
        check "${page}_in_the_light" shot $page 1
        check "${page}_differs" differs $page
    done
else
    skip pages_in_a_browser "no Chromium (apt install chromium)"
fi
test_end
