#!/bin/sh
# Compiles the BPF programs of the probe `sched`. The object is committed beside its source, so
# that nobody needs clang to build schedlab; a test compares it with what this makes.
#
# Usage: scripts/bpf.sh [OBJECT]      default: the committed one
set -eu
cd "$(dirname "$0")/../src/probe/bpf"
object=${1:-sched.bpf.o}
# Version 3 of the instruction set: what kernel 6.1 takes.
# No folder of the machine that it is compiled on goes into the object.
clang-19 -target bpf -mcpu=v3 -ffile-prefix-map="$PWD"=. -g -O2 -Wall -Wextra -Werror -c sched.bpf.c -o "$object"
# Debug information that only debuggers read; BTF stays.
llvm-strip-19 --strip-debug "$object"
