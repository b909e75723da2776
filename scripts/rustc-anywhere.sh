#!/bin/sh
# RUSTC_WRAPPER of scripts/dist.sh: the binary names no folder of the machine that builds it. As a wrapper, since
# flags with these folders in RUSTFLAGS would change Cargo's hashes, and with them the bytes.
set -- "$@" "--remap-path-prefix=$SCHEDLAB_CHECKOUT=/schedlab" "--remap-path-prefix=$SCHEDLAB_TARGET=/target"
for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
    set -- "$@" "--remap-path-prefix=$registry=/cargo"
done
exec "$@"
