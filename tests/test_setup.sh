#!/bin/sh
# test_setup.sh BUILD - the set-up says what is missing and why, asks for nothing where nothing is,
# and goes on without what it can do without. The machine is played by a folder of stand-ins: the
# script sees only the commands a test put there.
. tests/test.sh

option=
# A machine with the shell's own tools and the commands named; cc works when it is among them.
machine() {
    rm -rf "$scratch/bin"
    mkdir -p "$scratch/bin"
    for tool in sh rm mktemp grep tail head cat env id expr; do
        ln -s "$(command -v $tool)" "$scratch/bin/$tool"
    done
    for tool in "$@"; do
        printf '#!/bin/sh\nexit 0\n' >"$scratch/bin/$tool"
        chmod +x "$scratch/bin/$tool"
    done
}
apt() { # an apt-get that records what it is asked, and "installs" by the script given
    printf '#!/bin/sh\necho "apt-get $*" >>%s/asked\n%s\n' "$scratch" "$1" >"$scratch/bin/apt-get"
    printf '#!/bin/sh\necho "  Candidate: %s"\n' "$2" >"$scratch/bin/apt-cache"
    printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/dpkg"
    chmod +x "$scratch/bin/apt-get" "$scratch/bin/apt-cache" "$scratch/bin/dpkg"
    rm -f "$scratch/asked"
}
run_setup() {
    env -i PATH="$scratch/bin" HOME="$scratch" sh tools/setup.sh $option
}
says() { # says TEXT: the set-up succeeds and its words hold TEXT
    run_setup >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
    cat "$scratch/said"
    grep -q -- "$1" "$scratch/said"
}
silent() { [ -z "$(run_setup 2>&1 | grep -v 'libLLVM\|OpenCL')" ]; }
asked() { grep -q -- "$1" "$scratch/asked"; }
not_asked() { ! asked "$1"; }

machine cc make ar python3
check is_silent_where_nothing_is_missing silent
machine make ar python3
check_fails fails_without_a_compiler run_setup
machine cc make ar
check goes_on_without_python says 'going on without python3'
machine cc make ar
check says_what_is_missing_and_why says 'missing: python3 (runs the checks'

machine cc make ar python3
option=--checks
check gets_valgrind_for_the_checks_only says 'missing: valgrind libc6-dbg (runs'
machine cc make ar python3 valgrind
check is_silent_where_valgrind_is_there silent
option=

if [ "$(id -u)" -eq 0 ]; then
    machine make ar python3
    apt "printf '#!/bin/sh\nexit 0\n' >$scratch/bin/cc; $(command -v chmod) +x $scratch/bin/cc" 1.0
    check installs_a_missing_compiler says 'installing:.*gcc libc6-dev'
    check asks_apt_for_it asked 'install -y --no-install-recommends.*gcc libc6-dev'
    check leaves_fresh_lists_alone not_asked update
    machine make ar python3
    apt "printf '#!/bin/sh\nexit 0\n' >$scratch/bin/cc; $(command -v chmod) +x $scratch/bin/cc" '(none)'
    check updates_lists_that_know_nothing says 'apt-get update'
    check asks_apt_to_update asked update
    machine cc make ar
    apt 'exit 100' 1.0
    check goes_on_when_installing_fails says 'going on without python3'
else
    skip installing "not root"
fi
test_end
