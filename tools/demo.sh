#!/bin/sh
# demo.sh BUILD [TEXT] - train a small character-level GPT on TEXT, by default this source tree,
# then let a second process continue a line by the file the first one saved. The last line says how
# good the model is on text it was not trained on. Ctrl-C ends the training early and keeps its
# result; DEMO_SECONDS says how long it may take.
build=$1 text=$2
model=$build/demo.safetensors
said=$build/demo.said

if [ -z "$text" ]; then
    # The tree itself in a fixed order, C last: the end of the text is what is held out.
    text=$build/demo.txt
    {
        find Makefile README.md HACKING.md docs tools -type f \
            \( -name '*.md' -o -name '*.sh' -o -name '*.py' -o -name Makefile \) | LC_ALL=C sort
        find include tests bench examples src -type f -name '*.[ch]' | LC_ALL=C sort
    } 2>/dev/null | xargs cat >"$text" || exit 1
fi

# Ctrl-C is for the training, which saves and ends; the rest of this script goes on with what it
# saved.
trap : INT
rm -f "$model"
"$build/quern" train --text "$text" --out "$model" --steps 4000 \
    --seconds "${DEMO_SECONDS:-100}" |
    (trap '' INT && exec tee "$said")
trap - INT
[ -s "$model" ] || exit 1

echo
echo "300 characters from $model:"
echo "----------------------------------------------------------------"
"$build/quern" generate --model "$model" --length 300 || exit 1
echo "----------------------------------------------------------------"
tail -n 1 "$said"
