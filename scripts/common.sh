# Shared by the scripts here: say what happens and how long it took, find the engine, install packages.
# shellcheck shell=bash

STATE=.setup # what set-up remembers of this checkout; in .gitignore

# Milliseconds since the epoch. The decimal mark of EPOCHREALTIME follows the locale.
now_ms() { local now=${EPOCHREALTIME//[!0-9]/}; echo $((now / 1000)); }

export SETUP_BEGAN_MS=${SETUP_BEGAN_MS:-$(now_ms)} # one clock for a script and those that it calls

say() {
    local passed=$(($(now_ms) - SETUP_BEGAN_MS))
    printf '[%3d.%d s] %s\n' $((passed / 1000)) $((passed % 1000 / 100)) "$*"
}

fail() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# Run a command as root: as it is, or with a sudo that asks nothing.
as_root() {
    if is_root; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        fail "this needs root: $*"
    fi
}

# Install Debian packages. Without systemd no service may start by itself: whoever starts one must also end it.
install_packages() {
    command -v apt-get >/dev/null || fail "this is not Debian; install by hand: $*"
    say "installing with apt-get: $*"
    mkdir -p "$STATE"
    local quiet=(-o Dpkg::Use-Pty=0 -qq -y --no-install-recommends)
    local settings=(DEBIAN_FRONTEND=noninteractive)
    [ -d /run/systemd/system ] || settings+=(RUNLEVEL=1)
    {
        as_root apt-get update -qq &&
            as_root env "${settings[@]}" apt-get install "${quiet[@]}" "$@"
    } </dev/null >"$STATE/apt.log" 2>&1 9>&- || {
        tail -n 5 "$STATE/apt.log" >&2
        fail "apt-get could not install $* (see $STATE/apt.log)"
    }
}

# The socket where the engine is expected, or nothing when DOCKER_HOST names something other than a socket.
engine_socket() {
    case ${DOCKER_HOST:-unix:///var/run/docker.sock} in
    unix://*) echo "${DOCKER_HOST:-unix:///var/run/docker.sock}" | cut -c8- ;;
    esac
}

# Does an engine answer? Asked in Python, since neither curl nor Docker's client need be here.
engine_answers() {
    "${PYTHON:-python3}" - "${DOCKER_HOST:-unix:///var/run/docker.sock}" <<'PY'
import socket, sys
from urllib.parse import urlsplit

host = urlsplit(sys.argv[1])
try:
    if host.scheme == "unix":
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(3)
        link.connect(host.path)
    else:
        link = socket.create_connection((host.hostname, host.port or 2375), timeout=3)
    link.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
    sys.exit(0 if b" 200 " in link.recv(64) else 1)
except PermissionError:
    sys.exit(13)
except OSError:
    sys.exit(1)
PY
}
