#!/usr/bin/env bash
# Tries a release as its users do: checks the sums, unpacks the archive and runs schedlab as a user, installs the .deb, runs
# it and removes it; all in a clean root of this machine's Debian. Fails where a file or a folder is not as it was before.
#
# Usage: scripts/try-release.sh FOLDER     as root; mmdebstrap makes the root, from the mirror of the machine's own packages
#
# The root is a file system in memory that only this script sees: its end leaves no mount and no folder.
set -euo pipefail
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin

readonly name=a_release_in_a_clean_root

own=$(realpath "$0")

fail() {
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

if [[ ${1:-} != --inside ]]; then
    cd "${1:-.}" && [[ -r SHA256SUMS ]] || fail "\`${1:-}\` has no SHA256SUMS" "make release VERSION=..., then: $0 dist"
    sha256sum --check --quiet SHA256SUMS || fail "files are not those of SHA256SUMS" "make release, into an empty folder"
    mounts='mount -t tmpfs none /mnt && mkdir /mnt/proc /mnt/sys && mount -t proc none /mnt/proc && mount --rbind /sys /mnt/sys'
    if ! why=$(unshare --mount --pid --fork --kill-child -- sh -c "$mounts" 2>&1); then
        echo "skipped: $name needs privilege: mounts (${why##*: })" >&2
        exit 0
    fi
    exec unshare --mount --pid --fork --kill-child -- bash "$own" --inside
fi

# Opened before the mount, which may hide them.
named() { sed -n "s/^[0-9a-f]*  \(.*$1\)\$/\1/p" SHA256SUMS; }
exec 3<"$(named _amd64.deb)" 4<"$(named -x86_64-linux.tar.gz)"
began=$SECONDS root=/mnt
mount -t tmpfs none $root
# shellcheck disable=SC2016 # apt-get expands it
read -r suite mirror < <(apt-get indextargets --format '$(CODENAME) $(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
    sed -n 's/^\([a-z]*\) \([^ ]*\) Debian main$/\1 \2/p') || fail "apt has no mirror of Debian" "apt-get update"
mmdebstrap --quiet --mode=root --variant=essential "$suite" $root "$mirror" ||
    fail "no root was made from $mirror" "mmdebstrap --verbose --variant=essential $suite /dev/null $mirror"
mount -t proc none $root/proc
mount --rbind /sys $root/sys

# Everything but the notes that dpkg keeps of its own work.
list() {
    (
        cd $root
        own=(-not -path ./var/lib/dpkg/status-old -not -path ./var/log/dpkg.log)
        find . -xdev "${own[@]}" -printf '%p %y %m %U:%G %l\n' | sort
        find . -xdev "${own[@]}" -type f -print0 | sort -z | xargs -0 sha256sum
    )
}

before=$(list)
mkdir -m 777 $root/srv/user
as_user() { chroot --userspec=1000:1000 $root env -i HOME=/srv/user PATH=/usr/bin:/bin "$@"; }
as_user tar -xz -C /srv/user <&4
as_user sh -c 'cd /srv/user/schedlab-*/ && ./schedlab --version && ./schedlab run smoke --quiet && test -s man/man1/schedlab-run.1'
rm -r $root/srv/user
cat <&3 >$root/schedlab.deb
chroot $root dpkg --install /schedlab.deb >/dev/null
rm $root/schedlab.deb
chroot $root dpkg --verify schedlab
mkdir -m 777 $root/srv/user
as_user schedlab --version
as_user schedlab run smoke --quiet
as_user schedlab list runs
rm -r $root/srv/user
chroot $root dpkg --purge schedlab >/dev/null
after=$(list)
changed=$(diff <(printf '%s' "$before") <(printf '%s' "$after")) ||
    fail "the package leaves something behind: $changed" "dpkg-deb --contents schedlab_*.deb"
echo "$name: unpacked, run, installed, run and removed in $((SECONDS - began)) s; $(wc -l <<<"$after") lines of files as before"
