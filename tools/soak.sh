#!/bin/sh
# soak.sh BUILD PLAIN - run tests/fuzz_parse and tests/fuzz_api of BUILD, tests/fuzz_graph and tests/fuzz_loops
# of PLAIN, until each kind of input has had its number of seeds, or SOAK_SECONDS (600) are over, and keep the
# tally in tests/soak.tally: a line for each kind with what has been run of it so far. The next run goes on
# behind the last seed; where a file that the kind goes through, or that makes its inputs, has changed since (the
# line's hash), it begins again. SOAK_KINDS says which kinds (all).
#
# BUILD has sanitizers. Graphs and loops are compared with ref, whose values are what a fault shows in, and
# nearly all of their time is that of compilers: they run without. Those by OpenCL wait where no device is.
#
# SOAK_WAS names a folder in which an older state was built, with the fuzzers of this one, and whose tally of
# graphs and loops this is: those that ask their device for the same in both (tests/asked_device.h) count as run, the
# others are run again, and the tally is of this state. Nothing behind what devices are asked may differ: what
# emits C, devices, routines of the host; where that is so is for who says SOAK_WAS to know.
#
# Freed memory waits in the sanitizer's quarantine before it is used again, by default for 256 MB of it:
# each input then lies on fresh pages, which takes longer than reading it. 16 MB are hundreds of inputs.
build=$1
plain=$2
tally=${SOAK_TALLY:-tests/soak.tally}
end=$(($(date +%s) + ${SOAK_SECONDS:-600}))
export ASAN_OPTIONS="quarantine_size_mb=16:malloc_context_size=4${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
syms="src/sym/*.c src/sym/*.h src/graph/types/scalar.c src/graph/types/dtype.c"
text="src/ir/text/parse.c src/ir/text/text.c src/ir/tree.c src/ir/check.c src/ir/bulk.c src/ir/bounds.c
    src/ir/stored.c src/ir/depend.c src/ir/workgroup.c src/ir/ir.h $syms"
# The command is no part of the library, which is all that the calls reach.
api="include/*.h $(find src -mindepth 2 -maxdepth 3 -name '*.[ch]' ! -path 'src/cli/*' | sort | tr '\n' ' ')
    tests/run/fuzz_api.c tests/api.h tests/api_calls.h"
# All that a graph goes through whatever compiles its kernels, what is each compiler's, and how graphs are made.
compiler="$(find src -mindepth 2 -name '*.[ch]' |
    grep -Ev '^src/(cli|llm|onnx|text|archive|export|view|data|nn|emit/llvm|emit/clike|dev/cpu|dev/opencl)/' |
    sort | tr '\n' ' ')"
by_llvm="src/emit/llvm/*.[ch] src/dev/cpu/*.[ch]"
# What work groups have of their own no C compiler sees.
by_cc="$(find src/emit/clike -name '*.[ch]' ! -name workgroup.c | sort | tr '\n' ' ') src/dev/cpu/*.[ch]"
by_opencl="src/emit/clike/*.[ch] src/dev/opencl/*.[ch]"
graphs="$compiler tests/run/fuzz_graph.c tests/random_program.h tests/random_graph.h tests/range_graph.h
    tests/run_graph.h tests/shrink_graph.h"
loops="$compiler tests/run/fuzz_loops.c tests/random_loop.h"
lines="$text src/ir/loops.c src/transform/*.c src/transform/transforms.h"
# How inputs are made, and what is done with them.
shared="tests/fuzz.h tests/chance.h"
mine="$shared tests/fuzz_targets.h tests/fuzz_mutate.h tests/random_kernel.h tests/ir_interp.h"
archives="$shared tests/archive/fuzz_files.h tests/archive/read_all.h src/archive/archive.[ch] src/archive/source.c
    src/archive/mapped.c"
rows="$archives tests/data/fuzz_rows.h src/data/dataset.c src/data/data.h"
texts="$shared tests/text/fuzz_texts.h src/text/*.[ch] src/text/unicode/*.h src/io/json.c"
models="src/llm/config.c src/llm/fields.h src/llm/archs.h src/llm/classes.h src/llm/llm.h"

# KIND WANTED COLUMN CHUNK FILES: COLUMN says what of it is counted: inputs, which are calls of the API,
# lines, which are a recording's calls and a graph's gradients, or what was compared.
kinds() { # unquoted: names of files, found and on one line
    # shellcheck disable=SC2086
    {
        echo json 10000000 inputs 400000 $mine src/io/json.c
        echo safetensors 10000000 inputs 200000 $mine src/io/safetensors.c src/io/json.c src/io/file.c
        echo wisdom 10000000 inputs 100000 $mine src/schedule/wisdom/text.c src/schedule/wisdom/wisdom.c
        echo kernel 10000000 inputs 100000 $mine $text
        echo schedule 10000000 inputs 100000 $mine $lines
        echo options 10000000 inputs 500000 $mine src/cli/options.c src/base/knobs.c src/base/knobs.h
        echo recording 3000000 lines 4000 $mine src/cli/replay.c src/cli/replay_parse.c src/record/*.[ch]
        echo grammar 10000000 inputs 500000 $mine src/llm/grammar/*.[ch] src/io/json.c
        echo gguf 10000000 inputs 400000 $archives src/archive/gguf.c src/quant/types.h
        echo npy 10000000 inputs 400000 $archives src/archive/npy.c
        echo npz 10000000 inputs 400000 $archives src/archive/npy.c src/archive/zip.c src/archive/inflate.c
        echo pt 10000000 inputs 400000 $archives src/archive/pickle.c src/archive/zip.c
        echo shards 10000000 inputs 400000 $archives src/archive/safetensors.c src/io/safetensors.c src/io/json.c
        echo csv 10000000 inputs 400000 $rows src/data/csv.c src/data/cells.c
        echo rows 10000000 inputs 400000 $rows src/data/file.c src/data/tokens.c src/archive/npy.c
        echo onnx 10000000 inputs 400000 $shared tests/onnx/fuzz_models.h src/onnx/*.[ch] src/onnx/op/*.c
        echo tokenizer 10000000 inputs 400000 $texts
        echo text 10000000 inputs 400000 $texts
        echo template 10000000 inputs 200000 $texts src/text/template/*.[ch]
        echo config 10000000 inputs 500000 $shared tests/llm/fuzz_configs.h $models src/io/json.c
        echo llm 10000000 inputs 100000 $texts $archives tests/llm/fuzz_configs.h $models src/llm/weights.c \
            src/llm/slots.h src/llm/vocabulary.c src/llm/llm.c src/archive/gguf.c
        echo request 10000000 inputs 500000 $shared tests/cli/fuzz_requests.h src/cli/serve/request.c \
            src/cli/serve/answer.c src/cli/serve/serve.h src/io/json.c
        echo machine 10000000 inputs 200000 $shared tests/cli/fuzz_requests.h src/machine/machine.[ch] \
            src/machine/fields.h src/machine/families.h
        echo interp 200000 compared 10000 $mine $lines src/schedule/*.c
        echo llvm 50000 compared 4000 $mine $lines src/run/passes.c src/math/*.c src/emit/*.c src/emit/llvm/*.c
        echo api-ref 1000000 inputs 100000 $api
        echo api-cpu 1000000 inputs 20000 $api
        echo graphs 1000000 compared 4000 $graphs $by_llvm
        echo loops 100000 compared 3000 $loops $by_llvm
        echo graphs-cc 10000 compared 400 $graphs $by_cc
        echo loops-cc 1000 compared 100 $loops $by_cc
        echo graphs-opencl 10000 compared 100 $graphs $by_opencl
        echo loops-opencl 1000 compared 50 $loops $by_opencl
    }
}

hash_of() { # hash_of FILES: of their code without comments, which has how inputs are made in it
    cat "$@" | gcc -w -fpreprocessed -dD -E -P -x c - | sha1sum | cut -c1-12
}
field() { # field KIND HASH COLUMN: a number of the kind's line, 0 where it is of other code
    awk -v k="$1" -v h="$2" -v c="$3" '$1 == k && $2 == h { n = $c } END { print n + 0 }' "$tally" 2>/dev/null ||
        echo 0
}

write_line() { # write_line KIND HASH NEXT INPUTS ACCEPTED LINES COMPARED FINDINGS
    {
        echo "# what make soak has run: kind, hash of its code, next seed, inputs, accepted, schedule"
        echo "# lines or gradients, compared, findings, commit; with sanitizers but for graphs and loops"
        grep -v '^#' "$tally" 2>/dev/null | awk -v k="$1" '$1 != k'
        echo "$* $(git rev-parse --short HEAD 2>/dev/null)"
    } >"$tally.new" && mv "$tally.new" "$tally"
}

# In its line of seeds: first and last seed, inputs, accepted, lines, compared, findings.
run_fuzzer() { # run_fuzzer KIND SEED COUNT
    case $1 in
    graphs | loops) run_fuzzer "$1-cpu" "$2" "$3" ;;
    graphs-*) "$plain/tests/fuzz_graph" "$3" "$2" "all-${1#*-}" ;;
    loops-*) "$plain/tests/fuzz_loops" "$3" "$2" "all-${1#*-}" ;;
    api-*) "$build/tests/fuzz_api" "$3" "$2" "${1#api-}" ;;
    *) "$build/tests/fuzz_parse" "$1" "$2" "$3" ;;
    esac
}

run_chunk() { # run_chunk KIND HASH COUNT: one more line of results, added up; 2: it cannot be run here
    next=$(field "$1" "$2" 3)
    [ "$next" -gt 0 ] || next=1
    out=$(run_fuzzer "$1" "$next" "$3")
    status=$?
    echo "$out"
    echo "$out" | grep -q ' seeds [0-9]* to ' || return $((status ? 1 : 2))
    # shellcheck disable=SC2046
    set -- "$1" "$2" "$3" $(echo "$out" | grep ' seeds [0-9]* to ' | tail -n 1 | tr -cs '0-9' ' ')
    write_line "$1" "$2" $(($5 + 1)) $(($(field "$1" "$2" 4) + $6)) $(($(field "$1" "$2" 5) + $7)) \
        $(($(field "$1" "$2" 6) + $8)) $(($(field "$1" "$2" 7) + $9)) \
        $(($(field "$1" "$2" 8) + ${10}))
    return $status
}

# ---- what the older state ran ----

asked() { # asked FUZZER COUNT SEED GROUP: a line for each graph
    "$1" "$2" "$3" "$4" asked | grep -E '^[0-9]+ [0-9a-f]{16}$'
}

same_chunk() { # same_chunk GROUP SEED COUNT FUZZER: run what differs; how many these were, and findings
    asked "$SOAK_WAS/tests/$4" "$3" "$2" "$1" >"$tally.was" &
    asked "$plain/tests/$4" "$3" "$2" "$1" >"$tally.now"
    wait
    [ "$(wc -l <"$tally.now")" -eq "$3" ] && [ "$(wc -l <"$tally.was")" -eq "$3" ] || return 1
    again=0 findings=0
    # shellcheck disable=SC2013
    for seed_ in $(awk 'NR == FNR { was[$1] = $2; next } was[$1] != $2 { print $1 }' "$tally.was" "$tally.now"); do
        again=$((again + 1))
        "$plain/tests/$4" 1 "$seed_" "$1" >"$tally.out" || {
            findings=$((findings + 1))
            cat "$tally.out"
        }
    done
    echo "$1 seeds $2 to $(($2 + $3 - 1)): $again differ, $findings findings"
    [ $findings -eq 0 ]
}

# Where it stopped is kept, so that it can go on there.
same_kind() { # same_kind KIND HASH CHUNK: the line of another hash becomes one of this
    line=$(awk -v k="$1" -v h="$2" '$1 == k && $2 != h' "$tally")
    [ -n "$line" ] || return 0
    at_=$(awk -v k="$1" -v h="$2" '$1 == k && $2 == h { print $3 }' "$tally.same" 2>/dev/null)
    last_=$(($(echo "$line" | cut -d ' ' -f 3) - 1))
    fuzzer=fuzz_graph
    case $1 in loops*) fuzzer=fuzz_loops ;; esac
    group=all-${1#*-}
    case $1 in graphs | loops) group=all-cpu ;; esac
    at_=${at_:-1}
    while [ "$at_" -le "$last_" ]; do
        [ "$(date +%s)" -ge "$end" ] && return 2
        count_=$((last_ - at_ + 1))
        [ $count_ -le "$3" ] || count_=$3
        same_chunk "$group" "$at_" "$count_" "$fuzzer" || return 1
        at_=$((at_ + count_))
        echo "$1 $2 $at_" >"$tally.same"
    done
    # shellcheck disable=SC2086
    set -- "$1" "$2" $line
    write_line "$1" "$2" "$5" "$6" "$7" "$8" "$9" "${10}"
    rm -f "$tally.same" "$tally.was" "$tally.now" "$tally.out"
}

if [ -n "$SOAK_WAS" ]; then
    kinds | while read -r kind _ _ chunk files; do
        case $kind in graphs* | loops*) ;; *) continue ;; esac
        case " ${SOAK_KINDS:-$kind} " in *" $kind "*) ;; *) continue ;; esac
        # shellcheck disable=SC2086
        same_kind "$kind" "$(hash_of $files)" "$chunk" || exit 1
    done || exit 1
fi

bad=0
left=1
while [ $left -gt 0 ] && [ "$(date +%s)" -lt "$end" ]; do
    left=0
    kinds | {
        while read -r kind wanted by chunk files; do
            case " ${SOAK_KINDS:-$kind} " in *" $kind "*) ;; *) continue ;; esac
            # shellcheck disable=SC2086
            hash=$(hash_of $files)
            column=4
            [ "$by" = lines ] && column=6
            [ "$by" = compared ] && column=7
            [ "$(field "$kind" "$hash" $column)" -ge "$wanted" ] && continue
            [ "$(date +%s)" -ge "$end" ] && exit 3
            run_chunk "$kind" "$hash" "$chunk"
            case $? in
            0) touch "$tally.more" ;;
            2) ;;
            *) exit 1 ;;
            esac
        done
    }
    status=$?
    [ $status -eq 1 ] && bad=1
    [ $status -eq 0 ] || break
    [ -e "$tally.more" ] && left=1
    rm -f "$tally.more"
done
rm -f "$tally.more"
cat "$tally"
exit $bad
