#!/bin/sh
# demo.sh BUILD [TEXT] - train a small character-level GPT on TEXT, by default this source tree,
# then let a second process sample from the file the first one saved. The last line says how good
# the model is on text it was not trained on. Ctrl-C ends the training early and keeps its result.
build=$1 text=$2
model=$build/demo.safetensors
report=$build/demo.report
rm -f "$report"

if [ -z "$text" ]; then
    # The tree itself: what git would see, in a fixed order.
    text=$build/demo.txt
    find src include tests tools examples docs bench Makefile README.md HACKING.md -type f \
        \( -name '*.[ch]' -o -name '*.md' -o -name '*.sh' -o -name '*.py' -o -name Makefile \) \
        2>/dev/null | LC_ALL=C sort | xargs cat >"$text" || exit 1
fi

# Ctrl-C reaches the training, which saves and ends; this script goes on with what it saved.
trap : INT
"$build/quern" train --text "$text" --out "$model" --seconds "${DEMO_SECONDS:-100}" \
    --report "$report" || exit 1
trap - INT

echo
echo "300 characters from $model:"
echo "----------------------------------------------------------------"
"$build/quern" generate --model "$model" --length 300 || exit 1
echo
echo "----------------------------------------------------------------"
cat "$report"
