#!/usr/bin/env bash
# Makes what a release offers, in dist/: an archive and a .deb with the static binary, its man pages, completions,
# book and licences, the SBOM, and SHA256SUMS. The same commit and tools give the same bytes, in any folder, on any day.
#
# Usage: scripts/release.sh VERSION [BINARY FOLDER]      packs BINARY into FOLDER, and builds nothing
#
# TARGET=aarch64-unknown-linux-gnu makes those of another architecture (scripts/dist.sh); SHA256SUMS has all of dist/.
# SOURCE_DATE_EPOCH is the time of all files; by default that of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 2
}

# Makes plain names of links to files that are not packed, such as sources.
unlink_missing() {
    find "$1" -name '*.md' -exec perl -0777 -pi -e '
        my ($folder) = $ARGV =~ m{(.*)/};
        s{\[([^][]+)\]\(([^()\s:#]+)(?:#[^()\s]*)?\)}{-e "$folder/$2" ? $& : $1}ge' {} +
}

version=${1:-}
own=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[[ $version == "$own" ]] ||
    fail "the version is $own in Cargo.toml, not \`$version\`" "make release VERSION=$own"
grep -qx "version: $version" CITATION.cff ||
    fail "CITATION.cff names another version than $version" "sed -i 's/^version:.*/version: $version/' CITATION.cff"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)} ||
    fail "this is no clone, so the time of the commit is unknown" "SOURCE_DATE_EPOCH=SECONDS make release VERSION=$version"
export SOURCE_DATE_EPOCH

machine=${TARGET:-$(uname -m)} machine=${machine%%-*} emulator=
case $machine in
x86_64) architecture=amd64 suggests='qemu-system-x86, ca-certificates' ;;
aarch64) architecture=arm64 suggests=ca-certificates ;;
*) fail "schedlab is released for x86-64 and aarch64, not for \`$machine\`" "make release VERSION=$version" ;;
esac
binary=dist/schedlab out=${3:-dist}
if [[ $machine != "$(uname -m)" ]]; then binary=dist/schedlab-$machine emulator=qemu-$machine; fi
[[ -z $emulator ]] || command -v "$emulator" >/dev/null ||
    fail "$emulator, which starts the binary for \`$machine\`, is not there" "apt-get install qemu-user"
if [[ -n ${2:-} ]]; then binary=$2; else bash scripts/dist.sh; fi
mkdir -p "$out"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

name=schedlab-$version-$machine-linux
root=$stage/$name
mkdir -p "$root"/completions "$root"/man/man1
install -m 755 "$binary" "$root/schedlab"
# `man` and `completions` read nothing of the user's.
HOME=$stage/home $emulator "$root/schedlab" man "$root/man/man1" 2>/dev/null
for shell in bash zsh fish; do
    HOME=$stage/home $emulator "$root/schedlab" completions $shell >"$root/completions/schedlab.$shell"
done
HOME=$stage/home $emulator "$root/schedlab" help book >"$root/schedlab.html"
install -m 644 README.md CHANGELOG.md SECURITY.md CITATION.cff LICENSE-MIT LICENSE-APACHE THIRD-PARTY.txt \
    sbom.cdx.json "$root"
cp -r docs "$root/docs"
unlink_missing "$root"
chmod -R u=rwX,go=rX "$root"

tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=ustar \
    -C "$stage" -c "$name" | gzip -9n >"$out/$name.tar.gz"

deb=$stage/deb share=$stage/deb/usr/share
mkdir -p "$deb/DEBIAN" "$deb/usr/bin" "$share/man/man1" "$share/doc/schedlab" \
    "$share/bash-completion/completions" "$share/zsh/vendor-completions" "$share/fish/vendor_completions.d"
install -m 755 "$root/schedlab" "$deb/usr/bin/schedlab"
cp "$root"/man/man1/*.1 "$share/man/man1/"
gzip -9n "$share"/man/man1/*.1
cp "$root/completions/schedlab.bash" "$share/bash-completion/completions/schedlab"
cp "$root/completions/schedlab.zsh" "$share/zsh/vendor-completions/_schedlab"
cp "$root/completions/schedlab.fish" "$share/fish/vendor_completions.d/schedlab.fish"
cat LICENSE-MIT LICENSE-APACHE THIRD-PARTY.txt >"$share/doc/schedlab/copyright"
cp README.md sbom.cdx.json "$root/schedlab.html" "$share/doc/schedlab/"
unlink_missing "$share/doc/schedlab"
gzip -9nc CHANGELOG.md >"$share/doc/schedlab/changelog.gz"
kib=$(($(find "$deb/usr" -type f -printf '%s\n' | awk '{ bytes += $1 } END { print bytes }') / 1024))
cat >"$deb/DEBIAN/control" <<CONTROL
Package: schedlab
Version: $version
Architecture: $architecture
Maintainer: The schedlab contributors <schedlab@example.org>
Section: devel
Priority: optional
Installed-Size: $kib
Suggests: $suggests
Description: laboratory for CPU schedulers
 Answers whether one scheduler is better than another for a load, by how much,
 and whether that can be believed: on this machine, or on real kernels under
 virtual time.
CONTROL
(cd "$deb" && find usr -type f | sort | xargs md5sum >DEBIAN/md5sums)
chmod -R u=rwX,go=rX "$deb"
find "$deb" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=schedlab_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$deb" "$out/$package" >/dev/null

install -m 644 sbom.cdx.json "$out/schedlab-$version.cdx.json"
# Both architectures' files, where they are there, and nothing else that lies in the folder.
cd "$out"
files=("schedlab-$version.cdx.json")
for file in "schedlab-$version-"{x86_64,aarch64}-linux.tar.gz "schedlab_${version}_"{amd64,arm64}.deb; do
    if [[ -f $file ]]; then files+=("$file"); fi
done
sha256sum "${files[@]}" | tee SHA256SUMS
