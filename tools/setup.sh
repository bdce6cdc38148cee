#!/bin/sh
# Install the packages that Quern lacks on this machine, saying which and why, by whichever package
# manager is here: apt, dnf, pacman, apk or brew. Does nothing, and needs no network and no rights,
# where nothing is missing. A package that only makes things faster or checks more may stay missing:
# it is said and the work goes on. Only a missing C compiler ends with an error. With --checks it
# gets also what only .ci/run has a use for, with --llvm-static what make wheel-llvm links.
set -u
checks=${1:-}
managers="apt dnf pacman apk brew"
llvm_versions="22 21 20 19 18 17 16 15" # that will do, the best first

say() { echo "setup: $*"; }

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# ---- what there is -------------------------------------------------------------------------------

# A working compiler is one that compiles and links, not one whose name is there.
has_compiler() {
    printf '#include <math.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' \
        >"$scratch/probe.c"
    ${CC:-cc} -o "$scratch/probe" "$scratch/probe.c" -lm >"$scratch/log" 2>&1
}

# Where src/emit/llvm/load.c finds them: the folders of the loader, and those of versions.
has_llvm() {
    for v in $llvm_versions; do
        for file in /usr/lib/*/libLLVM-$v.so* /usr/lib/*/libLLVM.so.$v* /usr/lib/libLLVM-$v.so* \
            /usr/lib/libLLVM.so.$v* /usr/lib64/libLLVM-$v.so* /usr/lib64/libLLVM.so.$v* \
            /usr/lib/llvm-$v/lib/libLLVM*.so* /usr/lib/llvm$v/lib/libLLVM*.so* \
            /usr/lib64/llvm$v/lib/libLLVM*.so* /usr/lib/llvm/$v/lib64/libLLVM*.so* \
            /usr/local/lib/libLLVM*$v*.so* /home/linuxbrew/.linuxbrew/opt/llvm@$v/lib/libLLVM*.so*; do
            [ -e "$file" ] && return 0
        done
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
has_abidiff() { [ "$checks" != --checks ] || command -v abidiff >/dev/null 2>&1; }
has_static() {
    [ "$checks" != --llvm-static ] && return 0
    for folder in /usr/lib/llvm-*/lib; do
        [ -e "$folder/libLLVMX86CodeGen.a" ] && command -v c++ >/dev/null 2>&1 && return 0
    done
    return 1
}
has_httpd() {
    echo '#include <microhttpd.h>' | ${CC:-cc} -E -x c - >/dev/null 2>&1
}
has_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; }

# Of any Python from 3.11 on that is here.
has_headers() {
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import os, sys, sysconfig
sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' \
            >/dev/null 2>&1 && return 0
    done
    return 1
}
has_numpy() {
    [ "$checks" != --checks ] && return 0
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import numpy' >/dev/null 2>&1 && return 0
    done
    return 1
}

# ---- package managers ----------------------------------------------------------------------------

# The newest LLVM that apt knows; Debian and Ubuntu name packages by version.
apt_llvm() {
    for v in $llvm_versions; do
        apt-cache policy "libllvm$v" 2>/dev/null | grep -q 'Candidate: [^(]' && break
    done
    echo "libllvm$v"
}
apk_llvm() {
    for v in $llvm_versions; do
        apk search -e "llvm$v-libs" 2>/dev/null | grep -q . && break
    done
    echo "llvm$v-libs"
}

# names MANAGER WHAT: the packages that give it.
names() {
    case $1:$2 in
    apt:compiler) echo gcc libc6-dev ;;
    dnf:compiler) echo gcc glibc-devel ;;
    apk:compiler) echo gcc musl-dev ;;
    *:compiler) echo gcc ;;
    apt:llvm) if command -v apt-cache >/dev/null 2>&1; then apt_llvm; else echo libllvm19; fi ;;
    apk:llvm) if command -v apk >/dev/null 2>&1; then apk_llvm; else echo llvm19-libs; fi ;;
    brew:llvm) echo llvm ;;
    *:llvm) echo llvm-libs ;;
    apt:opencl) echo pocl-opencl-icd ocl-icd-libopencl1 ;;
    apk:opencl) echo pocl opencl-icd-loader ;;
    brew:opencl) echo pocl ;;
    *:opencl) echo pocl ocl-icd ;;
    pacman:python | pacman:headers) echo python ;;
    apt:headers | apk:headers) echo python3-dev ;;
    dnf:headers) echo python3-devel ;;
    brew:headers) echo python3 ;;
    apt:numpy | dnf:numpy) echo python3-numpy ;;
    apk:numpy) echo py3-numpy ;;
    pacman:numpy) echo python-numpy ;;
    *:python) echo python3 ;;
    apt:static) echo llvm-19-dev zlib1g-dev libzstd-dev g++ lld ;;
    dnf:static) echo llvm-static zlib-static libzstd-static gcc-c++ lld ;;
    *:static) echo llvm-static zlib-static zstd-static g++ lld ;;
    apt:httpd) echo libmicrohttpd-dev ;;
    dnf:httpd) echo libmicrohttpd-devel ;;
    apk:httpd) echo libmicrohttpd-dev ;;
    *:httpd) echo libmicrohttpd ;;
    apt:valgrind) echo valgrind libc6-dbg ;;
    apk:valgrind) echo valgrind musl-dbg ;;
    apt:abidiff) echo abigail-tools ;;
    *:abidiff) echo libabigail ;;
    *) echo "$2" ;;
    esac
}

there() { # there MANAGER: is it this system's?
    case $1 in
    apt) command -v apt-get ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}
command_of() { # command_of MANAGER install|update
    case $1:$2 in
    apt:install) echo apt-get install -y --no-install-recommends ;;
    apt:update) echo apt-get update ;;
    dnf:install) echo dnf install -y --setopt=install_weak_deps=False ;;
    dnf:update) echo dnf makecache ;;
    pacman:install) echo pacman -S --noconfirm --needed ;;
    pacman:update) echo pacman -Sy ;;
    apk:install) echo apk add ;;
    apk:update) echo apk update ;;
    brew:*) echo brew "$2" ;;
    esac
}
known() { # does apt know a version of every package? The others look for themselves.
    [ $manager = apt ] || return 0
    for package in $packages; do
        apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || return 1
    done
}
installed() {
    case $manager in
    apt) dpkg -s "$1" ;;
    dnf) rpm -q "$1" ;;
    pacman) pacman -Q "$1" ;;
    apk) apk info -e "$1" ;;
    brew) brew list "$1" ;;
    esac >/dev/null 2>&1
}

manager=none
for m in $managers; do
    if there "$m"; then
        manager=$m
        break
    fi
done

# ---- what is missing -----------------------------------------------------------------------------

missing="" packages=""
want() { # want CHECK WHAT WHY
    "$1" && return
    missing="$missing $2"
    if [ $manager = none ]; then
        say "missing: $2 ($3)"
    else
        say "missing: $(names $manager "$2") ($3)"
        packages="$packages $(names $manager "$2")"
    fi
}

want has_compiler compiler "compiles the library; also kernels where libLLVM is missing"
want has_ar binutils "puts the library together"
want has_make make "runs the build"
want has_llvm llvm "compiles kernels in the process; without it they go through cc, slower"
want has_opencl opencl \
    "an OpenCL device on the processor, to test kernels by work groups without a GPU"
want has_httpd httpd "the server of quern serve; without it the command has none"
want has_python python "runs the checks of style and of generated code"
want has_headers headers "compiles the Python package (make python)"
want has_numpy numpy "holds functions of the Python package against another library"
want has_abidiff abidiff "holds the headers against what they promised to compiled programs"
want has_static static "LLVM's static archives, of which make wheel-llvm takes the code generator"
want has_valgrind valgrind "runs a sample of the tests to look for faults of memory"

# ---- getting it ----------------------------------------------------------------------------------

as_root=""
if [ -n "$missing" ] && [ $manager = none ]; then
    say "none of $managers is here: please install these by this system's own means; they are called"
    for m in $managers; do
        all=""
        for what in $missing; do all="$all $(names "$m" "$what")"; done
        say "  $m:$all"
    done
elif [ -n "$packages" ] && [ $manager != brew ] && [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        as_root="sudo"
    else
        say "not root and no usable sudo: run \"$(command_of $manager install)$packages\" as root"
        packages=""
    fi
fi

# shellcheck disable=SC2046,SC2086
run() { # run install|update PACKAGE...
    what=$1
    shift
    $as_root env DEBIAN_FRONTEND=noninteractive $(command_of $manager "$what") "$@" \
        >"$scratch/log" 2>&1
}

if [ -n "$packages" ]; then
    say "installing:$packages"
    updated=no
    if ! known; then
        say "apt's lists are empty or old: apt-get update"
        run update || tail -n 3 "$scratch/log"
        updated=yes
        # which versions there are is known only now
        packages=""
        for what in $missing; do packages="$packages $(names $manager "$what")"; done
    fi
    # shellcheck disable=SC2086
    if ! run install $packages && [ $updated = no ]; then
        say "could not install: $(command_of $manager update), and once more"
        run update || tail -n 3 "$scratch/log"
        run install $packages || tail -n 3 "$scratch/log"
    fi
    # One package that cannot be had must not keep the others away.
    for package in $packages; do
        installed "$package" && continue
        run install "$package" || say "could not install $package"
    done
fi

if ! has_compiler || ! has_ar; then
    say "no working C compiler: Quern cannot be built here"
    exit 1
fi
has_llvm || say "going on without libLLVM 15 to 22: kernels go through cc"
has_python || say "going on without python3: style and generator checks will not run"
exit 0
