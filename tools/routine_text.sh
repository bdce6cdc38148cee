#!/bin/sh
# routine_text.sh FILE.. - each file of src as a row TEXT("its name", "its text") of C, for export/routines.c.
for file in "$@"; do
    printf 'TEXT("%s",\n' "${file#src/}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' "$file"
    printf ')\n'
done
