#!/bin/sh
# test_machine.sh BUILD - other machines than this one: processors with fewer instructions, played by
# knob isa, and every version of libLLVM that is installed here. A sample of tests is run for each;
# the whole suite takes the same knobs.
. tests/test.sh
build=$1
quern=$build/quern
devices() { env "$@" "$quern" devices >"$scratch/devices" 2>&1; }
says() { # says TEXT KNOB...: the command tells of the device with these knobs
    text=$1
    shift
    devices "$@" && { cat "$scratch/devices"; grep -q -- "$text" "$scratch/devices"; }
}
sample() { # sample KNOB...: kernels compiled so are right
    env "$@" "$build/tests/test_emit" narrow_multiply dots_of lanes_that &&
        env "$@" "$build/tests/test_instructions" functions_by &&
        env "$@" "$build/tests/test_cpu" && env "$@" "$build/tests/fuzz_emit" 25
}

check says_what_kernels_are_compiled_by says '^ *kernels: .' QN_CPU=
check says_what_instructions_are_used says 'instructions: .*vectors of [136][246] bytes' QN_ISA=
check says_where_there_is_no_multiply_add says 'no fma' QN_ISA=x86-64-v2
check says_why_no_llvm_is_used says 'the C compiler.*not a version from 15 to 22' QN_LLVM=14
check says_what_file_is_no_llvm says 'the C compiler.*/no/llvm' QN_LLVM=/no/llvm.so

for level in x86-64 x86-64-v2 x86-64-v3; do
    check "kernels_are_right_on_$level" sample QN_ISA=$level
    check "moves_are_right_on_$level" env QN_ISA=$level "$build/tests/test_movement" every_two
done
check every_operation_is_right_without_avx env QN_ISA=x86-64-v2 "$build/tests/test_emit" \
    operations_agree
versions=""
for version in 15 16 17 18 19 20 21 22; do
    if says "kernels: libLLVM $version" QN_LLVM=$version >/dev/null; then
        check "kernels_are_right_by_llvm_$version" sample QN_LLVM=$version
        versions="$versions $version"
    else
        skip "kernels_are_right_by_llvm_$version" "it is not installed"
    fi
done
newest=$(echo "$versions" | awk '{ print $NF }')
if [ -n "$newest" ]; then
    check takes_the_newest_llvm says "kernels: libLLVM $newest" QN_LLVM=
else
    skip takes_the_newest_llvm "there is none"
fi

# The code itself, from the disk cache: no register or instruction above the level.
code() { # code LEVEL: what a small training compiles, disassembled
    rm -rf "$scratch/cache"
    mkdir -m 700 "$scratch/cache"
    seq 400 >"$scratch/text"
    QN_ISA=$1 QN_CACHE=$scratch/cache "$quern" train --text "$scratch/text" --layers 1 --width 16 \
        --heads 2 --context 16 --batch 4 --steps 2 --out "$scratch/model" >/dev/null 2>&1 || return 1
    python3 - "$scratch" <<'END' || return 1
import glob, sys
for i, path in enumerate(glob.glob(sys.argv[1] + '/cache/*.o')):
    data = open(path, 'rb').read()
    at = data.find(b'\x7fELF')
    if at >= 0: open('%s/cache/%d.elf' % (sys.argv[1], i), 'wb').write(data[at:])
END
    objdump -d "$scratch"/cache/*.elf >"$scratch/code" 2>/dev/null
    grep -q 'mulps' "$scratch/code"
}
only() { # only LEVEL TABOO
    code "$1" && ! grep -E "$2" "$scratch/code" | head -n 3 | grep .
}
if command -v objdump >/dev/null && command -v python3 >/dev/null; then
    check x86_64_v3_has_no_512_bits only x86-64-v3 '%zmm|%k[1-7]'
    check x86_64_v2_has_no_avx only x86-64-v2 '%ymm|%zmm|[[:space:]]v[a-z]+ps|vfmadd|vcvtph2ps'
    check x86_64_has_no_sse4 only x86-64 '%ymm|roundps|blendv|pmulld|pminsd|pshufb|popcnt'
else
    skip code_of_levels "no objdump or python3"
fi
test_end
