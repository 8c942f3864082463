#!/usr/bin/env bash
# Prove `make test` on a Debian that has nothing: a new root made by debootstrap, with an engine and packages of its own.
#
#   scripts/from-nothing.sh                    the whole of `make test`
#   TESTS=tests/escape scripts/from-nothing.sh only these tests, after the same set-up
#
# Needs root and debootstrap. What the machine needs to reach its package registries (apt, pip, npm, certificates, names) is copied
# in; nothing else of it is there. The new root is removed at the end, KEEP=1 leaves it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

is_root || fail "a new root needs root"
command -v debootstrap >/dev/null || PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null || install_packages debootstrap
PATH=$PATH:/usr/sbin:/sbin

new=$(mktemp -d "${TMPDIR:-/var/tmp}/pd-nothing-XXXXXX")
mounted=()

end() {
    # Whatever still runs in there: the engine that set-up started, should `make stop` have failed.
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/root" 2>/dev/null)" = "$new" ]; then kill -9 "${process#/proc/}" 2>/dev/null || true; fi
    done
    local at
    for ((at = ${#mounted[@]} - 1; at >= 0; at--)); do umount -R -l "${mounted[at]}" || true; done
    if [ -n "${KEEP:-}" ]; then say "left: $new"; return 0; fi
    if grep -q " $new" /proc/self/mountinfo; then fail "still mounted below $new, so it is left"; fi
    rm -rf --one-file-system "$new"
}
trap end EXIT

bring() { # a file or folder of this machine, at the same place
    local each
    for each in "$@"; do
        [ -e "$each" ] || continue
        mkdir -p "$new$(dirname "$each")"
        cp -aL "$each" "$new$(dirname "$each")/" 2>/dev/null || true
    done
}

say "making a Debian with make and git alone"
debootstrap --variant=minbase --include=make,git,ca-certificates bookworm "$new" >"$new.log" 2>&1 ||
    { tail -n 5 "$new.log" >&2; fail "debootstrap failed"; }
rm -f "$new.log"
bring /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d/99* /etc/pip.conf "$HOME/.npmrc" "$HOME/.config/pip" \
    /etc/ssl/certs /usr/local/share/ca-certificates /etc/resolv.conf /etc/hosts
mkdir -p "$new/src" "$new/tmp"
# The engine asks that its root is a mount, where it unpacks an image.
mount --bind "$new" "$new"
mount --make-private "$new"
mounted+=("$new")
for place in proc sys dev; do
    mount --rbind "/$place" "$new/$place"
    mount --make-rslave "$new/$place"
    mounted+=("$new/$place")
done
mount -t tmpfs -o mode=755 pidispatch "$new/run"
mounted+=("$new/run")
git clone -q --no-hardlinks . "$new/src/pidispatch"

registry=$(env | grep -E '^(PIP_CERT|SSL_CERT_FILE|SSL_CERT_DIR|NODE_EXTRA_CA_CERTS|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE)=' || true)
say "make test, from nothing"
# shellcheck disable=SC2086 # words on purpose: names of files hold no spaces here
env -i HOME="$HOME" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 ${registry//$'\n'/ } \
    TESTS="${TESTS:-tests}" \
    chroot "$new" /bin/bash -c 'cd /src/pidispatch && make test TESTS="$TESTS" </dev/null; code=$?; make stop; exit $code'
