#!/usr/bin/env bash
# Builds the static binary once more, in another folder, and compares it with dist/schedlab. Libraries of the registry are
# taken from the first build: they lie outside both folders.
#
# Usage: scripts/same-bytes.sh [FOLDER]     FOLDER has the copies that `scripts/same-bytes.sh --copy FOLDER` has made before
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

# The checkout and what the first build made of libraries.
copy() {
    local target host
    target=$(cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    host=$(rustc -vV | sed -n 's/^host: //p')
    mkdir -p "$1/checkout" "$1/target/$host"
    tar --create --exclude=./target --exclude=./dist --exclude=./.git . | tar --extract --directory "$1/checkout"
    cp --archive "$target/release" "$1/target/"
    cp --archive "$target/$host/release" "$1/target/$host/"
}

if [[ ${1:-} == --copy ]]; then
    copy "${2:?a folder}"
    exit
fi
other=${1:-}
if [[ -z $other ]]; then
    other=$(mktemp -d)
    trap 'rm -rf "$other"' EXIT
    copy "$other"
fi
CARGO_TARGET_DIR=$other/target bash "$other/checkout/scripts/dist.sh"
cmp dist/schedlab "$other/checkout/dist/schedlab" ||
    fail "the binary differs from folder to folder" "strings -n 8 dist/schedlab | grep /; see scripts/rustc-anywhere.sh"
sha256sum dist/schedlab
