#!/bin/sh
# Install the Debian packages that Quern lacks on this machine, saying which and why. Does nothing,
# and needs no network and no rights, where nothing is missing. A package that only makes things
# faster or checks more may stay missing: it is said and the work goes on. Only a missing C compiler
# ends with an error. With --checks it gets also what only .ci/run has a use for.
set -u
checks=${1:-}

say() { echo "setup: $*"; }

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# A working compiler is one that compiles and links, not one whose name is there.
has_compiler() {
    printf '#include <math.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' \
        >"$scratch/probe.c"
    ${CC:-cc} -o "$scratch/probe" "$scratch/probe.c" -lm >"$scratch/log" 2>&1
}

has_llvm() {
    for file in /usr/lib/*/libLLVM-19.so* /usr/lib/*/libLLVM.so.19* /usr/lib/llvm-19/lib/libLLVM*.so* \
        /usr/lib/libLLVM*19*.so* /usr/local/lib/libLLVM*19*; do
        [ -e "$file" ] && return 0
    done
    return 1
}

# A driver that registers itself, and the library that finds it: any vendor's will do.
has_opencl() {
    for library in /usr/lib/*/libOpenCL.so.1 /usr/lib/libOpenCL.so.1 /usr/lib64/libOpenCL.so.1; do
        for driver in /etc/OpenCL/vendors/*.icd; do
            [ -e "$library" ] && [ -e "$driver" ] && return 0
        done
    done
    return 1
}

has_make() { command -v make >/dev/null 2>&1; }
has_ar() { command -v ar >/dev/null 2>&1; }
has_valgrind() { [ "$checks" != --checks ] || command -v valgrind >/dev/null 2>&1; }
has_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; }

packages=""
want() { # want CHECK PACKAGES WHY
    "$1" && return
    say "missing: $2 ($3)"
    packages="$packages $2"
}

want has_compiler "gcc libc6-dev" "compiles the library; also kernels where libLLVM is missing"
want has_ar "binutils" "puts the library together"
want has_make "make" "runs the build"
want has_llvm "libllvm19" "compiles kernels in the process; without it they go through cc, slower"
want has_opencl "pocl-opencl-icd ocl-icd-libopencl1" \
    "an OpenCL device on the processor, to test kernels by work groups without a GPU"
want has_python "python3" "runs the checks of style and of generated code"
want has_valgrind "valgrind libc6-dbg" "runs a sample of the tests to look for faults of memory"

as_root=""
if [ -n "$packages" ]; then
    if ! command -v apt-get >/dev/null 2>&1; then
        say "there is no apt-get here: please install the packages above by this system's own means"
        packages=""
    elif [ "$(id -u)" -ne 0 ]; then
        if command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            as_root="sudo"
        else
            say "not root and no usable sudo: run \"apt-get install$packages\" as root"
            packages=""
        fi
    fi
fi

install_packages() {
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        $packages >"$scratch/log" 2>&1
}

known() { # does apt know a version of every package?
    for package in $packages; do
        apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
    done
}

if [ -n "$packages" ]; then
    say "installing:$packages"
    updated=no
    if ! known; then
        say "apt's lists are empty or old: apt-get update"
        $as_root apt-get update >"$scratch/log" 2>&1 || tail -n 3 "$scratch/log"
        updated=yes
    fi
    if ! install_packages && [ $updated = no ]; then
        say "could not install: apt-get update, and once more"
        $as_root apt-get update >"$scratch/log" 2>&1 || tail -n 3 "$scratch/log"
        install_packages || tail -n 3 "$scratch/log"
    fi
    # One package that cannot be had must not keep the others away.
    all=$packages
    for package in $all; do
        dpkg -s "$package" >/dev/null 2>&1 && continue
        packages=$package
        install_packages || say "could not install $package"
    done
fi

if ! has_compiler || ! has_ar; then
    say "no working C compiler: Quern cannot be built here"
    exit 1
fi
has_llvm || say "going on without libLLVM 19: kernels go through cc"
has_python || say "going on without python3: style and generator checks will not run"
exit 0
