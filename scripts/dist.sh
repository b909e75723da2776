#!/usr/bin/env bash
# Builds dist/schedlab: one static binary (glibc), and says how large and how quick it is. With
# TARGET=aarch64-unknown-linux-gnu: dist/schedlab-aarch64, with Debian's cross compiler, started once under qemu-user.
#
# Fails if the binary needs a dynamic loader or a library, or is larger than 22 MB. The
# time that `--help` takes is printed beside its goal and fails nothing: it is the
# machine's as much as ours.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly max_bytes=22000000 goal_us=5000 starts=20

host=$(rustc -vV | sed -n 's/^host: //p')
target=${TARGET:-$host}
machine=${target%%-*}
name=dist/schedlab compiler=cc emulator=
if [[ $target != "$host" ]]; then
    name=dist/schedlab-$machine compiler=$machine-linux-gnu-gcc emulator=qemu-$machine
    readonly packages='gcc-aarch64-linux-gnu libc6-dev-arm64-cross libelf-dev:arm64 zlib1g-dev:arm64 qemu-user'
    if [[ $target != aarch64-unknown-linux-gnu ]]; then
        printf 'error: %s builds for itself and for aarch64-unknown-linux-gnu, not for `%s`\n' "$host" "$target" >&2
        echo 'hint: make dist TARGET=aarch64-unknown-linux-gnu' >&2
        exit 2
    elif ! { command -v "$compiler" && command -v "$emulator"; } >/dev/null ||
        [[ $("$compiler" -print-file-name=libelf.a) != /* ]]; then
        printf 'error: this machine cannot build for %s\n' "$target" >&2
        echo "hint: as root: dpkg --add-architecture arm64 && apt-get update && apt-get install $packages" >&2
        exit 1
    elif [[ ! -d $(rustc --print target-libdir --target "$target") ]]; then
        printf "error: Rust's library for %s is not there\n" "$target" >&2
        echo "hint: rustup target add $target" >&2
        exit 1
    fi
fi
folder=$(cargo metadata --format-version 1 --no-deps --offline |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
# Where the linker finds libelf.a: not where Rust looks for static libraries.
libraries=$(dirname "$("$compiler" -print-file-name=libelf.a)")
if [[ -n $emulator ]]; then
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
    export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_LIBDIR=$libraries/pkgconfig
fi
# The script by a relative path, since a folder's name in a flag would change the bytes.
readonly link=-z,pack-relative-relocs,--no-eh-frame-hdr,-T,scripts/no-unwind.ld
SCHEDLAB_CHECKOUT=$(pwd -P) SCHEDLAB_TARGET=$folder
export SCHEDLAB_CHECKOUT SCHEDLAB_TARGET
# The same bytes from any folder: no path of this machine, in Rust and in C.
RUSTC_WRAPPER=$SCHEDLAB_CHECKOUT/scripts/rustc-anywhere.sh \
    CFLAGS="${CFLAGS:-} -ffile-prefix-map=$SCHEDLAB_CHECKOUT=/schedlab -ffile-prefix-map=$folder=/target -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    LIBBPF_SYS_LIBRARY_PATH="${LIBBPF_SYS_LIBRARY_PATH:-$libraries}" \
    RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static -C force-unwind-tables=no -C link-arg=-Wl,$link" \
    cargo build --release --locked --features full --target "$target"
mkdir -p dist
built=$name.new
install -m 755 "$folder/$target/release/schedlab" "$built"

if dynamic=$(readelf --program-headers --dynamic --wide "$built" | grep -E 'INTERP|NEEDED'); then
    printf 'error: the binary is not static:\n%s\n' "$dynamic" >&2
    echo "hint: a dependency links a shared library; see: cargo tree -i PACKAGE" >&2
    exit 1
fi

bytes=$(stat -c %s "$built")
if ((bytes > max_bytes)); then
    echo "error: the binary is $bytes bytes, $max_bytes is the most" >&2
    echo "hint: cargo tree --edges normal --duplicates" >&2
    exit 1
fi

# A new file in the place of the old, which may be running.
mv "$built" "$name"
printf '%s: static, %s\n' "$name" "$target"
printf '  size        %8d bytes  (at most %d)\n' "$bytes" "$max_bytes"
if [[ -n $emulator ]]; then
    printf '  %s: ' "$emulator"
    "$emulator" "$name" --version
    exit
fi

# EPOCHREALTIME has microseconds and starts no process of its own.
best_us=
for ((start = 0; start < starts; start++)); do
    begin_us=${EPOCHREALTIME/./}
    dist/schedlab --help >/dev/null
    took_us=$((${EPOCHREALTIME/./} - begin_us))
    if [[ -z $best_us ]] || ((took_us < best_us)); then best_us=$took_us; fi
done

printf '  --help      %8d us     (goal %d, best of %d starts)\n' "$best_us" "$goal_us" "$starts"
if ((best_us > goal_us)); then
    echo "warning: --help takes longer than its goal" >&2
fi
