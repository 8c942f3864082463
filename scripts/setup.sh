#!/usr/bin/env bash
# Make this checkout ready: .venv from the lock, a Docker engine, the job image, the servers' system user.
#
# On a fresh Debian 12 it needs root (or a sudo that asks nothing); where everything is there already, a user in the
# group docker is enough. A second run finds everything done. PYTHON picks the interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

IMAGE=${PI_JOB_IMAGE:-pi-job:latest}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            PYTHON=$(command -v "$candidate")
            return 0
        fi
    done
    return 1
}

ensure_python() {
    if ! find_python; then
        [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not Python 3.11 or newer"
        install_packages python3 python3-venv ca-certificates
        find_python || fail "Debian's python3 is older than 3.11; set PYTHON"
    fi
    "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || install_packages python3-venv ca-certificates
    export PYTHON
}

# The lock decides what is in .venv: another lock, interpreter or place makes it anew.
ensure_venv() {
    local wanted project
    wanted="$("$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)') $PWD $(sha256sum <requirements-dev.lock)"
    project="$wanted $(sha256sum <pyproject.toml)"
    if [ "$(cat .venv/lock-stamp 2>/dev/null)" = "$wanted" ]; then
        say ".venv: there already"
    else
        say "making .venv with $("$PYTHON" --version) from requirements-dev.lock"
        rm -rf .venv
        "$PYTHON" -m venv .venv
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
            --require-hashes --only-binary :all: -r requirements-dev.lock
        echo "$wanted" >.venv/lock-stamp
        say ".venv: made"
    fi
    [ "$(cat .venv/project-stamp 2>/dev/null)" != "$project" ] || return 0
    say "installing pidispatch itself into .venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
        --no-deps --no-build-isolation --no-index -e .
    echo "$project" >.venv/project-stamp
}

# Postgres refuses to run as root; as `nobody` it would share its files with whatever else runs so.
ensure_user() {
    is_root || return 0
    if id -u pidispatch >/dev/null 2>&1; then
        say "system user pidispatch: there already"
        return 0
    fi
    say "making the system user pidispatch, which the embedded servers run as"
    PATH=$PATH:/usr/sbin useradd --system --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin pidispatch
}

ensure_engine() {
    if engine_answers; then
        say "Docker engine: there already"
    else
        scripts/engine.sh start
    fi
}

# Boxes are built from git repositories and a Debian tree; what makes them is needed only for a build.
ensure_image() {
    local missing=()
    if .venv/bin/pidispatch image check >/dev/null 2>&1; then
        say "job image $IMAGE: there already"
        return 0
    fi
    command -v npm >/dev/null || missing+=(nodejs npm)
    if is_root; then PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null || missing+=(debootstrap); fi
    [ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}" ca-certificates
    say "building the job image $IMAGE"
    PATH=$PATH:/usr/sbin .venv/bin/pidispatch image build </dev/null
    .venv/bin/pidispatch image check
}

main() {
    mkdir -p "$STATE"
    exec 9>"$STATE/lock"
    flock -n 9 || { say "waiting for another set-up of this checkout"; flock 9; }
    command -v git >/dev/null || install_packages git ca-certificates
    # Moves the clock of a test's Postgres. Where nobody may install it, only those cells of the fault matrix fail.
    if is_root && ! command -v faketime >/dev/null; then install_packages faketime; fi
    # Makes the certificates of servers that tests start.
    if is_root && ! command -v openssl >/dev/null; then install_packages openssl; fi
    # Tests go through it, as operators do; Debian's package starts a daemon of its own, which nobody here wants.
    if is_root && ! PATH=$PATH:/usr/sbin command -v pgbouncer >/dev/null; then
        install_packages pgbouncer
        if command -v systemctl >/dev/null; then systemctl disable --now pgbouncer >/dev/null 2>&1 || true; fi
    fi
    ensure_python
    ensure_venv
    ensure_user
    ensure_engine
    ensure_image
    say "set-up is complete"
}

main
