#!/bin/sh
# test_install.sh BUILD - what `make install` puts down can be used: by the compiler, by pkg-config,
# by CMake, and the shared library by its SONAME; and uninstall takes it all away.
. tests/test.sh
build=$1
root=$scratch/root
prefix=$root/opt/quern
cat >"$scratch/program.c" <<'END'
#include <quern.h>
#include <stdio.h>
int main(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref"));
    qn_tensor *x = qn_from(qn, QN_F32, 1, (int64_t[]){2}, (float[]){1, 2});
    float out[2] = {0};
    qn_read(qn_add(x, x), out, sizeof out);
    printf("%g %g\n", (double)out[0], (double)out[1]);
    qn_close(qn);
    return !(out[0] == 2 && out[1] == 4);
}
END
install_it() { make -s BUILD="$build" PREFIX=/opt/quern DESTDIR="$root" install; }
cc=${CC:-cc}

check installs install_it
check library_has_its_soname sh -c "readelf -d $prefix/lib/libquern.so | grep -q 'SONAME.*libquern.so.0'"
check shared sh -c "$cc $scratch/program.c -I$prefix/include -L$prefix/lib -lquern -o $scratch/shared &&
    LD_LIBRARY_PATH=$prefix/lib $scratch/shared"
check static sh -c "$cc $scratch/program.c -I$prefix/include $prefix/lib/libquern.a -lm -ldl -pthread \
    -o $scratch/static && $scratch/static"
cat >"$scratch/strict.c" <<'END'
#include <quern_nn.h>
#include <quern_tune.h>
qn_options options(void);
qn_options options(void) { return QN_OPTIONS(); }
END
check headers_are_strict_c $cc -std=c99 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror \
    "-I$prefix/include" -fsyntax-only "$scratch/strict.c"
if command -v c++ >/dev/null; then
    cat >"$scratch/program.cc" <<'END'
#include <quern_nn.h>
#include <quern_tune.h>
int main() {
    qn_options options = QN_OPTIONS();
    options.device = "ref";
    qn_ctx *qn = qn_open(&options);
    qn_tune_options none = QN_TUNE_OPTIONS();
    qn_stats stats;
    qn_get_stats(qn, &stats, sizeof stats);
    bool fine = qn && qn_tune(qn, 0, nullptr, &none) == QN_EARG && stats.kernels == 0;
    qn_close(qn);
    return !fine;
}
END
    check a_program_in_cplusplus sh -c "c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -I$prefix/include \
        $scratch/program.cc $prefix/lib/libquern.a -lm -ldl -pthread -o $scratch/plusplus && $scratch/plusplus"
else
    skip a_program_in_cplusplus "no C++ compiler"
fi
check command "$prefix/bin/quern" --version
check man_page test -s "$prefix/share/man/man1/quern.1"
if command -v python3 >/dev/null; then
    man3=$prefix/share/man/man3
    check every_function_has_a_page sh -c "grep -ohE '^QN_API[^(]*qn_[a-z0-9_]+' include/quern*.h |
        sed 's/.*qn_/qn_/' | while read -r name; do [ -s $man3/\$name.3 ] || { echo \$name; exit 1; }; done"
    check a_page_says_what_the_header_does grep -qF 'inner product of two vectors of one size' \
        "$man3/quern_operations_products.3"
    check pages_name_headers_that_are_there sh -c "sed -n 's/^#include <\\(.*\\)>\$/\\1/p' $man3/*.3 \
        $prefix/share/man/man1/*.1 | sort -u | while read -r h; do [ -s $prefix/include/\$h ] || { echo \$h; exit 1; };
        done"
    # The name stands twice in a line of 80, around what kind of page it is.
    check headings_have_room sh -c "! grep -h '^\.TH' $man3/quern*.3 | awk 'length(\$2) > 24' | grep ."
    command -v groff >/dev/null && check pages_are_sound sh -c \
        "! cat $man3/quern*.3 | groff -man -Tutf8 -ww -z 2>&1 | grep -v 'break\|adjust' | grep ."
fi
check paths_are_final grep -q '^prefix=/opt/quern$' "$prefix/lib/pkgconfig/quern.pc"
if command -v pkg-config >/dev/null; then
    flags() { PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@" quern; }
    check pkg_config sh -c "$cc $scratch/program.c $(flags --cflags --libs) -o $scratch/packaged &&
        LD_LIBRARY_PATH=$prefix/lib $scratch/packaged"
    check version_is_the_headers sh -c "[ $(flags --modversion) = $(cut -d' ' -f2 <<END
$("$prefix/bin/quern" --version)
END
    ) ]"
else
    skip pkg_config "no pkg-config"
fi
if command -v cmake >/dev/null; then
    mkdir -p "$scratch/cmake"
    cat >"$scratch/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(quern 0.1 REQUIRED)
add_executable(shared ../program.c)
target_link_libraries(shared quern::quern)
add_executable(static ../program.c)
target_link_libraries(static quern::static)
END
    check cmake sh -c "cmake -S $scratch/cmake -B $scratch/cmake/build -DCMAKE_PREFIX_PATH=$prefix &&
        cmake --build $scratch/cmake/build && $scratch/cmake/build/shared && $scratch/cmake/build/static"
    sed -i 's/quern 0.1/quern 0.2/' "$scratch/cmake/CMakeLists.txt"
    check_fails cmake_refuses_another_series \
        cmake -S "$scratch/cmake" -B "$scratch/cmake/other" -DCMAKE_PREFIX_PATH="$prefix"
else
    skip cmake "no cmake"
fi
check uninstalls make -s BUILD="$build" PREFIX=/opt/quern DESTDIR="$root" uninstall
check leaves_no_file sh -c "[ -z \"\$(find $root -type f -o -type l)\" ]"
test_end
