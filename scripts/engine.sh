#!/usr/bin/env bash
# Start a Docker engine where none answers, and stop the one that was started here.
#
#   scripts/engine.sh start    does nothing when an engine answers
#   scripts/engine.sh stop     stops the engine that `start` started from this checkout, and no other
#   scripts/engine.sh owned    prints that engine's process id; exit code 1 when there is none
#
# PIDISPATCH_DOCKERD_FLAGS adds flags to dockerd (`--data-root /somewhere/large`).
# A machine with systemd keeps its engine as a service: it is started there and never stopped from here.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

OWNED=$STATE/dockerd.pid # "<pid> <start time>": a process id alone may have been given to another process
LOG=$PWD/$STATE/dockerd.log
START_SECONDS=20
STOP_SECONDS=30

# Field 22 of /proc/<pid>/stat, counted after the name, which may hold spaces.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

owned_pid() {
    local pid started
    [ -s "$OWNED" ] && read -r pid started <"$OWNED" || return 1
    [ "$(start_time "$pid")" = "$started" ] && echo "$pid"
}

# A pid file left by a machine that stopped hard may name somebody else's process by now; dockerd believes it.
drop_stale_pid_file() {
    local file=$1 name=$2 pid
    [ -s "$file" ] || return 0
    pid=$(cat "$file")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ] || as_root rm -f "$file"
}

# Start dockerd with these flags and wait until it answers; on failure it is gone again.
try_start() {
    local socket pid deadline root=()
    socket=$(engine_socket)
    is_root || root=(sudo -n)
    "${root[@]}" setsid dockerd --host "unix://$socket" --pidfile "$PWD/$STATE/dockerd.own" \
        ${PIDISPATCH_DOCKERD_FLAGS:-} "$@" </dev/null >>"$LOG" 2>&1 9>&- &
    deadline=$((SECONDS + START_SECONDS))
    while [ "$SECONDS" -lt "$deadline" ]; do
        if engine_answers && [ -s "$STATE/dockerd.own" ]; then
            pid=$(cat "$STATE/dockerd.own")
            echo "$pid $(start_time "$pid")" >"$OWNED"
            return 0
        fi
        kill -0 $! 2>/dev/null || break
        sleep 0.2
    done
    if [ -s "$STATE/dockerd.own" ]; then as_root kill "$(cat "$STATE/dockerd.own")" 2>/dev/null || true; fi
    wait $! 2>/dev/null || true
    return 1
}

start() {
    local answer=0
    engine_answers || answer=$?
    [ "$answer" -ne 0 ] || return 0
    [ "$answer" -ne 13 ] || fail "an engine is here, but $(id -un) may not use it; add yourself to the group docker"
    [ -n "$(engine_socket)" ] || fail "no engine answers at DOCKER_HOST"
    mkdir -p "$STATE"
    command -v dockerd >/dev/null || PATH=$PATH:/usr/sbin command -v dockerd >/dev/null ||
        install_packages docker.io iptables ca-certificates
    PATH=$PATH:/usr/sbin:/sbin
    if [ -d /run/systemd/system ]; then
        say "starting the service docker"
        as_root systemctl start docker
        engine_answers || fail "the service docker does not answer; see journalctl -u docker"
        return 0
    fi
    drop_stale_pid_file /var/run/docker.pid dockerd
    drop_stale_pid_file /var/run/docker/containerd/containerd.pid containerd
    rm -f "$STATE/dockerd.own"
    : >"$LOG"
    say "starting dockerd (log: $STATE/dockerd.log)"
    try_start && say "dockerd answers" && return 0
    say "dockerd did not start; again without a network of its own (boxes have none anyway)"
    try_start --iptables=false --ip6tables=false --bridge=none && say "dockerd answers" && return 0
    grep -E 'level=(error|fatal)|failed to start' "$LOG" | tail -n 3 >&2 || true
    fail "dockerd does not start; see $STATE/dockerd.log"
}

stop() {
    local pid deadline
    pid=$(owned_pid) || return 0
    say "stopping the dockerd that set-up started (pid $pid)"
    as_root kill "$pid"
    deadline=$((SECONDS + STOP_SECONDS))
    while owned_pid >/dev/null; do
        [ "$SECONDS" -lt "$deadline" ] || fail "dockerd (pid $pid) has not stopped after $STOP_SECONDS s"
        sleep 0.1
    done
    rm -f "$OWNED"
}

case ${1:-} in
start) start ;;
stop) stop ;;
owned) owned_pid ;;
*) fail "usage: scripts/engine.sh start|stop|owned" ;;
esac
