#!/usr/bin/env bash
# Builds the static binary once more, in another folder, and compares it with dist/schedlab. Libraries of the registry are
# taken from the first build: they lie outside both folders.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
host=$(rustc -vV | sed -n 's/^host: //p')
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT

mkdir -p "$other/checkout" "$other/target/$host"
tar --create --exclude=./target --exclude=./dist --exclude=./.git . | tar --extract --directory "$other/checkout"
cp --archive "$target/release" "$other/target/"
cp --archive "$target/$host/release" "$other/target/$host/"
CARGO_TARGET_DIR=$other/target bash "$other/checkout/scripts/dist.sh"

if ! cmp dist/schedlab "$other/checkout/dist/schedlab"; then
    echo 'error: the binary differs from folder to folder' >&2
    echo 'hint: strings -n 8 dist/schedlab | grep /; see scripts/rustc-anywhere.sh' >&2
    exit 1
fi
sha256sum dist/schedlab
