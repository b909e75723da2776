#!/bin/sh
# Compiles the BPF programs: the probe `sched` and the schedulers of the knob `scx`. Objects are
# committed beside their sources, so that nobody needs clang to build schedlab; a test compares
# them with what this makes.
#
# Usage: scripts/bpf.sh [FOLDER]      default: beside the sources; else all into FOLDER
set -eu
cd "$(dirname "$0")/.."
into=${1:+$(realpath "$1")}

for source in core/src/*/bpf/*.bpf.c core/src/*/*/bpf/*.bpf.c; do
    object=$(basename "$source" .c).o
    (
        cd "$(dirname "$source")"
        object=${into:+$into/}$object
        # Version 3 of the instruction set: what kernel 6.1 takes.
        # No folder of the machine that it is compiled on goes into the object.
        clang-19 -target bpf -mcpu=v3 -ffile-prefix-map="$PWD"=. -g -O2 -Wall -Wextra -Werror \
            -c "$(basename "$source")" -o "$object"
        # Debug information that only debuggers read; BTF stays.
        llvm-strip-19 --strip-debug "$object"
    )
done
