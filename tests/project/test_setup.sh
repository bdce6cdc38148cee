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
silent() { [ -z "$(run_setup 2>&1 | grep -v 'libLLVM\|OpenCL\|none of\|  [a-z]*: ')" ]; }
asked() { grep -q -- "$1" "$scratch/asked"; }
not_asked() { ! asked "$1"; }

machine cc make ar python3
check is_silent_where_nothing_is_missing silent
machine make ar python3
check_fails fails_without_a_compiler run_setup
machine cc make ar
check goes_on_without_python says 'going on without python3'
machine cc make ar
check says_what_is_missing_and_why says 'missing: python (runs the checks'
check says_how_packages_are_called says '  dnf:.*python3'
check says_how_arch_calls_them says '  pacman:.*python$'
check fails_on_no_machine_without_a_manager says 'none of apt dnf pacman apk brew is here'

machine cc make ar python3
option=--checks
check gets_valgrind_for_the_checks_only says 'missing: valgrind (runs'
check gets_abidiff_for_the_checks_only says 'missing: abidiff (holds'
machine cc make ar python3 valgrind abidiff
check is_silent_where_it_and_abidiff_are_there silent
machine cc make ar python3
option=--llvm-static
check gets_archives_of_llvm_where_they_are_asked_for says 'missing: static (LLVM'
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
    # Another manager than apt is asked in its own words.
    manager() { # manager NAME COMMAND: NAME records what it is asked; COMMAND is what it should be
        machine make ar python3
        printf '#!/bin/sh\necho "%s $*" >>%s/asked\n[ $1 = %s ] || exit 0\n' "$1" "$scratch" "$2" \
            >"$scratch/bin/$1"
        printf 'printf "#!/bin/sh\\nexit 0\\n" >%s/bin/cc; %s +x %s/bin/cc\n' "$scratch" \
            "$(command -v chmod)" "$scratch" >>"$scratch/bin/$1"
        chmod +x "$scratch/bin/$1"
        rm -f "$scratch/asked"
    }
    manager dnf install
    check installs_by_dnf says 'installing:.*gcc glibc-devel'
    check asks_dnf_for_it asked '^dnf install -y .*gcc glibc-devel'
    manager pacman -S
    check installs_by_pacman says 'installing:.*gcc'
    check asks_pacman_for_it asked '^pacman -S --noconfirm --needed gcc'
    manager apk add
    check installs_by_apk says 'installing:.*gcc musl-dev'
    check asks_apk_for_it asked '^apk add gcc musl-dev'
    manager brew install
    check installs_by_brew says 'installing:.*gcc'
    check asks_brew_for_it asked '^brew install gcc'
else
    skip installing "not root"
fi
test_end
