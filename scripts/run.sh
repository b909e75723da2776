#!/bin/sh
# Builds what `make run` needs, and measures: scripts/run.sh [ARGS of `schedlab run`]
#
# Cargo and the package manager are heard where they fail, and nowhere else.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
binary=$target/quick/schedlab

QUIET=1 sh scripts/need.sh build
if [ ! -x "$binary" ] ||
    [ -n "$(find Cargo.toml Cargo.lock build.rs core src docs plans programs -newer "$binary" | head -n 1)" ]; then
    echo 'Builds schedlab once, some two minutes on two cores; then it measures for two.'
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! $cargo build --profile quick --locked --quiet 2>"$log"; then
        cat "$log" >&2
        exit 1
    fi
    # Cargo leaves a binary alone that the change does not touch.
    touch "$binary"
fi
exec "$binary" run "$@"
