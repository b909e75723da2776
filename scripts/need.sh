#!/bin/sh
# Sees to it that this machine has what schedlab needs; installs what is missing.
#
# Usage: scripts/need.sh PURPOSE...      PURPOSE: build, test, lab, programs, page, fleet, dist, release, ci
#
# Looks first and asks the system's package manager only for what is not there. Asks the
# user before, unless root or ASSUME_YES=1. A Rust toolchain is never installed from here:
# which one is the user's choice; the message says how to get one.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }

# Whether a C program compiles and links: the compiler alone, without headers and start
# files, is not enough. With -static: whether the static C library is there too.
links() {
    scratch=$(mktemp -d)
    linked=no
    printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' |
        cc "$@" -x c -o "$scratch/program" - >/dev/null 2>&1 && linked=yes
    rm -rf "$scratch"
    [ "$linked" = yes ]
}

# libbpf is built from source, and links these two.
has_libelf() {
    has make && has pkg-config && pkg-config --exists libelf zlib
}

# Cargo fetches over TLS and takes the system's certificates.
has_certificates() {
    [ -n "${SSL_CERT_FILE:-}" ] && { [ -s "$SSL_CERT_FILE" ]; return; }
    [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -s /etc/pki/tls/certs/ca-bundle.crt ]
}

# The lab needs QEMU 8: earlier ones hang when several virtual CPUs boot under virtual time.
has_qemu() {
    version=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\.\([0-9]\).*/\1\2/p')
    [ "${version:-0}" -ge 82 ]
}

# lack WHAT APT DNF PACMAN: notes something that is missing and who packages it.
lack() {
    missing="${missing:+$missing, }$1"
    apt="$apt $2" dnf="$dnf $3" pacman="$pacman $4"
}

find_missing() {
    missing='' apt='' dnf='' pacman=''
    for purpose in "$@"; do
        case $purpose in
        build)
            links || lack 'a C compiler with headers (SQLite is built from source)' \
                'gcc libc6-dev' 'gcc glibc-devel' gcc
            has_libelf || lack 'libelf, zlib, make and pkg-config (telemetry)' \
                'libelf-dev zlib1g-dev make pkg-config' \
                'elfutils-libelf-devel zlib-devel make pkgconf-pkg-config' 'libelf zlib make pkgconf'
            has_certificates || lack 'CA certificates (Cargo fetches over TLS)' \
                ca-certificates ca-certificates ca-certificates
            ;;
        test)
            has git || lack 'git (a test reads which files it tracks)' git git git
            has patch || lack 'patch (kernels are built with patches)' patch patch patch
            has strace || lack 'strace (tests let system calls fail)' strace strace strace
            has parallel || lack 'GNU parallel (runs the parts of a plan)' parallel parallel parallel
            { has python3 && python3 -c 'import yaml'; } 2>/dev/null ||
                lack 'Python with YAML (reads the files for CI)' python3-yaml python3-pyyaml python-yaml
            ;;
        lab)
            has_qemu || lack 'QEMU, version 8.2 or newer (the lab)' \
                qemu-system-x86 qemu-system-x86-core qemu-system-x86
            { has flex && has bison && has bc; } ||
                lack 'flex, bison and bc (kernels are built)' 'flex bison bc' 'flex bison bc' \
                    'flex bison bc'
            # Some programs are in folders that are not on everybody's PATH.
            PATH=$PATH:/usr/sbin
            { has nginx && has openssl; } || lack 'nginx and openssl (a cache that users share)' \
                'nginx-light openssl' 'nginx openssl' 'nginx openssl'
            ;;
        programs)
            # Known workloads, of which each runs once in a test.
            has 7zz || lack 7-Zip 7zip 7zip 7zip
            { has hackbench && has cyclictest; } || lack rt-tests rt-tests realtime-tests rt-tests
            has primesieve || lack primesieve primesieve primesieve primesieve
            has stress-ng || lack stress-ng stress-ng stress-ng stress-ng
            has sysbench || lack sysbench sysbench sysbench sysbench
            # Some are in folders that are not on everybody's PATH.
            PATH=$PATH:/usr/sbin
            has john || lack 'John the Ripper' john john john
            has tbench || lack dbench dbench dbench dbench
            has iperf3 || lack iperf3 iperf3 iperf3 iperf3
            has sockperf || lack sockperf sockperf sockperf sockperf
            { has redis-server && has redis-benchmark; } ||
                lack Redis 'redis-server redis-tools' redis redis
            { has memcached && has memcaslap; } ||
                lack memcached 'memcached libmemcached-tools' 'memcached libmemcached' \
                    'memcached libmemcached'
            { has nginx && has wrk; } || lack 'nginx and wrk' 'nginx-light wrk' 'nginx wrk' 'nginx wrk'
            has pgbench || lack PostgreSQL postgresql 'postgresql-server postgresql-contrib' postgresql
            has ffmpeg || lack FFmpeg ffmpeg ffmpeg ffmpeg
            { has flex && has bison && has bc && ls /usr/src/linux-source-*.tar.xz; } >/dev/null 2>&1 ||
                lack "the kernel's source" \
                    'linux-source flex bison bc libelf-dev libssl-dev xz-utils' \
                    'flex bison bc elfutils-libelf-devel openssl-devel xz' 'flex bison bc openssl xz'
            ;;
        page)
            # What drives the page of a report in a browser.
            has chromium || lack Chromium chromium chromium chromium
            { has node && has npm; } || lack 'Node.js and npm' 'nodejs npm' 'nodejs npm' 'nodejs npm'
            ;;
        fleet)
            # Daemons are in folders that are not on everybody's PATH.
            PATH=$PATH:/usr/sbin
            { has sbatch && has slurmctld && has slurmd && has munged; } ||
                lack 'Slurm and munge' 'slurm-client slurmctld slurmd munge' \
                    'slurm slurm-slurmctld slurm-slurmd munge' 'slurm-llnl munge'
            ;;
        dist)
            links -static || lack 'the static C library' \
                'gcc libc6-dev' 'gcc glibc-static' 'gcc glibc'
            has readelf || lack 'readelf' binutils binutils binutils
            ;;
        release)
            has dpkg-deb || lack 'dpkg-deb (packages of Debian)' dpkg dpkg dpkg
            ;;
        ci)
            has make || lack 'make' make make make
            has mmdebstrap || lack 'mmdebstrap (a clean root)' mmdebstrap mmdebstrap mmdebstrap
            { has clang-19 && has llvm-strip-19; } || lack 'clang 19 (BPF programs)' \
                'clang-19 llvm-19' 'clang llvm' 'clang llvm'
            ;;
        *)
            say "error: unknown purpose \`$purpose\`"
            say 'hint: scripts/need.sh build test lab programs page fleet dist release ci'
            exit 2
            ;;
        esac
    done
}

need_toolchain() {
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    hint='install one with https://rustup.rs, or: apt-get install rustup && rustup default stable'
    if ! has cargo || ! has rustc; then
        say "error: no Rust toolchain: \`cargo\` and \`rustc\` are not both on the PATH ($wanted or newer is needed)"
        # shellcheck disable=SC2016 # the user's shell is to expand it
        [ -x "${HOME:-}/.cargo/bin/cargo" ] && hint='. "$HOME/.cargo/env"'
        say "hint: $hint"
        exit 1
    fi
    found=$(rustc --version | cut -d' ' -f2)
    found_minor=${found#1.} wanted_minor=${wanted#1.}
    if [ "${found_minor%%.*}" -lt "${wanted_minor%%.*}" ]; then
        say "error: rustc is version $found, and $wanted or newer is needed"
        if has rustup; then say 'hint: rustup update stable'; else say "hint: $hint"; fi
        exit 1
    fi
}

# Sets `as_root` to what makes a command run as root, with the user's consent.
consent() {
    as_root=''
    [ "$(id -u)" = 0 ] && return
    if ! has sudo; then
        say "hint: as root: $*"
        exit 1
    fi
    as_root=sudo
    [ "${ASSUME_YES:-}" = 1 ] && return
    if ! [ -t 0 ]; then
        say "hint: sudo $*"
        say 'hint: or say yes beforehand with ASSUME_YES=1'
        exit 1
    fi
    printf 'Install with `sudo %s`? [y/N] ' "$*" >&2
    read -r answer
    case $answer in
    y | Y | yes) ;;
    *)
        say 'Nothing was installed.'
        exit 1
        ;;
    esac
}

# Debian 12 has QEMU 7.2; its backports have a newer one. Sets `backports` to the options that
# make apt-get take it from there, or to nothing where the release's own will do. Where backports
# are no source of this machine, they become one for these calls alone: next to the machine's own,
# in a folder that goes away, from the mirror that the release itself comes from.
find_backports() {
    backports=''
    # shellcheck disable=SC2016 # apt-get expands it
    targets=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages')
    mirror=$(printf '%s\n' "$targets" | sed -n 's/^bookworm \([^ ]*\)$/\1/p' | sed -n 1p)
    [ -n "$mirror" ] || return 0
    backports='-t bookworm-backports'
    case $targets in *'bookworm-backports '*) return 0 ;; esac
    private=$(mktemp -d)
    # shellcheck disable=SC2064 # as they are now
    trap "$as_root rm -rf '$private'" EXIT
    chmod 755 "$private" # apt-get downloads as a user of its own
    mkdir "$private/parts" "$private/lists"
    cp /etc/apt/sources.list "$private/parts/own.list" 2>/dev/null || true
    cp /etc/apt/sources.list.d/* "$private/parts" 2>/dev/null || true
    key=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$key] $mirror bookworm-backports main" >"$private/parts/backports.list"
    backports="$backports -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$private/parts"
    backports="$backports -o Dir::State::lists=$private/lists"
}

# apt_install OPTIONS PACKAGE...
apt_install() {
    options=$1
    shift
    # A list that is out of date names packages that are gone. One broken source need not
    # matter: the installation decides.
    # shellcheck disable=SC2086 # options without spaces in them
    heard $as_root apt-get $options update -q ||
        say 'warning: apt-get update failed; trying to install anyway'
    # shellcheck disable=SC2086
    heard $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get $options install -q -y --no-install-recommends "$@"
}

# With QUIET set, what a command prints is shown where it fails.
heard() {
    [ -n "${QUIET:-}" ] || { "$@"; return; }
    words=$(mktemp)
    status=0
    "$@" >"$words" 2>&1 || status=$?
    [ $status = 0 ] || cat "$words" >&2
    rm -f "$words"
    return $status
}

# Servers are wanted as programs: those of the system are not started by their installation.
without_servers() {
    policy=/usr/sbin/policy-rc.d
    if [ -e $policy ]; then
        "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
    $as_root chmod 755 $policy
    status=0
    "$@" || status=$?
    $as_root rm $policy
    return $status
}

install_packages() {
    say "missing: $missing"
    # shellcheck disable=SC2086 # lists of package names
    set -- $apt
    if ! has apt-get; then
        if has dnf; then
            say "hint: sudo dnf install$dnf"
        elif has pacman; then
            say "hint: sudo pacman -S --needed$pacman"
        else
            say "hint: install them with this system's package manager; Debian calls them:$apt"
        fi
        exit 1
    fi
    consent apt-get install --no-install-recommends "$@"
    case " $* " in
    *' qemu-system-x86 '*) find_backports ;;
    *) backports='' ;;
    esac
    if [ -n "$backports" ]; then
        # Nothing else is to come from there.
        # shellcheck disable=SC2046
        set -- $(printf '%s\n' "$@" | sed '/^qemu-system-x86$/d')
        apt_install "$backports" qemu-system-x86
    fi
    case " $* " in
    '  ') ;;
    *' postgresql '* | *' redis-server '* | *' memcached '* | *' nginx-light '* | \
        *' slurmctld '*)
        without_servers apt_install '' "$@"
        ;;
    *) apt_install '' "$@" ;;
    esac
}

# Where tests find the packages that drive a browser.
page_modules() {
    [ -d target/page/node_modules/axe-core ] && [ -d target/page/node_modules/playwright-core ] ||
        npm install --silent --no-audit --no-fund --prefix target/page playwright-core@1.56 axe-core@4.10
}

need_toolchain
find_missing "$@"
if [ -n "$missing" ]; then
    install_packages
    find_missing "$@"
    if [ -n "$missing" ]; then
        say "error: still missing after the installation: $missing"
        exit 1
    fi
fi
case " $* " in *' page '*) page_modules ;; esac
