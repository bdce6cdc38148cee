#!/bin/sh
# python.sh headers|numpy - the Python to build the package with, from 3.11 on and with its headers, or nothing;
# the one to test it with, which has NumPy where one has.
for python in python3 /usr/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue
    case $1 in
    headers) "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' && echo "$python" && exit 0 ;;
    numpy) "$python" -c 'import numpy' >/dev/null 2>&1 && echo "$python" && exit 0 ;;
    esac
done
[ "$1" = numpy ] && echo python3
exit 0
