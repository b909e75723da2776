#!/bin/sh
# Tests a scheduler in CI: sees to it that the lab is there, runs `schedlab test`, leaves JUnit and a Markdown summary.
#
# Usage: schedlab-test.sh PLAN...
#
# The exit code is that of `schedlab test`: 0 all expectations hold, 1 one fails, 2 a plan is wrong, 3 one is open or
# something could not be measured. From the environment:
#
#   SCHEDLAB          the program; else `schedlab` on the PATH
#   SCHEDLAB_ARCHIVE  where there is none: the archive of a release, a URL or a file,
#   SCHEDLAB_SHA256   and its sum in SHA256SUMS
#   SCHEDLAB_BACKEND  where plans run; else the lab
#   SCHEDLAB_OPTIONS  more words for `schedlab test`: --until-decided --budget 2min
#   SCHEDLAB_RESULTS  the folder of results.xml, summary.md and schedlab.db; else schedlab-results
#   XDG_CACHE_HOME    what CI keeps from job to job: the program, packages, kernels, booted machines, exact results
set -eu

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $1"
    say "hint: $2"
    [ ! -d "${results:-}" ] || printf 'Nothing was tested: %s\n' "$1" >"$results/summary.md"
    exit 3
}

[ $# -gt 0 ] || {
    say "error: no plan is named"
    say "hint: sh $0 PLAN..."
    exit 2
}
backend=${SCHEDLAB_BACKEND:-lab}
results=${SCHEDLAB_RESULTS:-schedlab-results}
cache=${XDG_CACHE_HOME:-$HOME/.cache}
# Paths of XDG are absolute; those of many CIs are not.
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac
export XDG_CACHE_HOME="$cache"
own=$cache/schedlab-ci
mkdir -p "$own" "$results" || fail "$own or $results cannot be made" "are they writable?"
rm -f "$results/results.xml" "$results/summary.md" "$results"/schedlab.db*

# need PROGRAM PACKAGE...: installs packages of Debian where the program is missing; what was downloaded stays in the cache.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    program=$1
    shift
    { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; } ||
        fail "there is no $program" "install it in the image of this job; Debian calls it: $*"
    mkdir -p "$own/packages/partial"
    apt-get -q update >&2 || fail "apt-get update failed" "its messages are above"
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        -o Dir::Cache::archives="$own/packages" install "$@" >&2 ||
        fail "$* cannot be installed" "its messages are above"
}

# The program of the archive, by its sum, so that another release is another file.
unpack() {
    [ -n "${SCHEDLAB_ARCHIVE:-}" ] && [ -n "${SCHEDLAB_SHA256:-}" ] ||
        fail "there is no schedlab" "set SCHEDLAB_ARCHIVE and SCHEDLAB_SHA256, or SCHEDLAB"
    schedlab=$own/program-$SCHEDLAB_SHA256/schedlab
    [ ! -x "$schedlab" ] || return 0
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    case $SCHEDLAB_ARCHIVE in
    *://*)
        need curl curl ca-certificates
        curl --fail --silent --show-error --location --retry 3 -o "$folder/archive" "$SCHEDLAB_ARCHIVE" ||
            fail "$SCHEDLAB_ARCHIVE cannot be fetched" "is SCHEDLAB_ARCHIVE right?"
        ;;
    *) cp "$SCHEDLAB_ARCHIVE" "$folder/archive" || fail "$SCHEDLAB_ARCHIVE cannot be read" "is SCHEDLAB_ARCHIVE right?" ;;
    esac
    echo "$SCHEDLAB_SHA256  $folder/archive" | sha256sum --check --quiet >&2 ||
        fail "$SCHEDLAB_ARCHIVE has another SHA-256" "is SCHEDLAB_SHA256 of this release?"
    tar -xzf "$folder/archive" -C "$folder" --strip-components=1 ||
        fail "$SCHEDLAB_ARCHIVE is no archive of a release" "is SCHEDLAB_ARCHIVE right?"
    rm -rf "$own"/program-* # those of earlier releases
    mkdir "${schedlab%/*}"
    mv "$folder/schedlab" "$schedlab"
}

# Whether each plan says in [lab] which kernel its variants have: then none of them needs the default.
names_kernels() {
    awk 'FNR == 1 { lab = 0 } /^\[/ { lab = /^\[lab\]/ } lab && /^kernel *=/ { named++ }
        END { exit named != ARGC - 1 }' "$@" 2>/dev/null
}

schedlab=${SCHEDLAB:-$(command -v schedlab || true)}
[ -n "$schedlab" ] || unpack
[ -x "$(command -v "$schedlab" || true)" ] ||
    fail "$schedlab cannot be started" "set SCHEDLAB to the path of schedlab, or leave it out"

if [ "$backend" = lab ]; then
    need qemu-system-x86_64 qemu-system-x86
    kernels=$(cat "$@" 2>/dev/null | grep -oE '"debian:[A-Za-z0-9.+~_-]+"' | tr -d '"' | sort -u)
    [ -n "$kernels" ] || names_kernels "$@" || kernels=debian:6.18
    # shellcheck disable=SC2086 # names without spaces
    [ -z "$kernels" ] || "$schedlab" kernel get $kernels >&2 ||
        fail "kernels are missing" "the messages of kernel get are above"
fi

status=0
# shellcheck disable=SC2086 # words
"$schedlab" test "$@" --backend "$backend" ${SCHEDLAB_OPTIONS:-} --db "$results/schedlab.db" \
    -o "$results/results.xml" --summary "$results/summary.md" || status=$?
[ -s "$results/summary.md" ] ||
    echo "schedlab test ended with $status before anything was tested: the log of this job says why." >"$results/summary.md"
cat "$results/summary.md"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$results/summary.md" >>"$GITHUB_STEP_SUMMARY"
# Machines that an earlier release booted would stay in the cache.
"$schedlab" cache rm stale >/dev/null || true
exit $status
