"""The process tree of `up`: order, restarts, signals, and that nothing outlives it."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pidispatch.app.up import embedded_valkey
from pidispatch.services import child
from pidispatch.services.faults import ServiceFailed
from pidispatch.services.program import Backoff
from pidispatch.services.supervisor import Died, Tree
from tests.services.conftest import gone, seconds_until
from tests.support.patience import slowness

# A program that forks a helper in a session of its own, and both watch the supervisor.
FAMILY = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from pidispatch.services.child import VARIABLE, exit_when_parent_dies
helper = os.fork()
if helper == 0:
    os.setsid()
exit_when_parent_dies(int(os.environ[VARIABLE]), grace=1)
if helper:
    with open(sys.argv[1] + ".partial", "w") as file:
        file.write(f"{os.getpid()} {helper}")
    os.rename(sys.argv[1] + ".partial", sys.argv[1])
time.sleep(60)
"""

UP = """
    import os, sys, threading, time
    from pathlib import Path
    from pidispatch.services.supervisor import StopAsked, Tree

    def announce(tree):
        while tree._phase != "watching":
            time.sleep(0.01)
        print("watching", flush=True)

    folder, family, root = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    pids = folder / "pids"
    try:
        with Tree(folder) as tree:
            print("starting", flush=True)
            tree.add("family", [sys.executable, "-c", family, str(pids), root], os.environ, ready=pids.exists)
            threading.Thread(target=announce, args=(tree,), daemon=True).start()
            print("ended", tree.run(), flush=True)
    except StopAsked as asked:
        print("stopped while starting by", asked, flush=True)
    print("clean", flush=True)
"""
ROOT = str(Path(__file__).parents[2])


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


@pytest.fixture
def lines():
    return []


@pytest.fixture
def tree(tmp_path, lines):
    with Tree(tmp_path, echo=lines.append) as tree:
        yield tree


def up(start_script, short_directory):
    process = start_script(UP, FAMILY, ROOT)
    assert process.stdout.readline() == "starting\n"
    assert process.stdout.readline() == "watching\n"
    return process, [int(pid) for pid in (short_directory / "user" / "pids").read_text().split()]


def test_killing_the_supervisor_ends_a_program_and_what_it_forked_into_another_session(
    start_script, short_directory
):
    process, pids = up(start_script, short_directory)

    process.kill()

    print(f"gone after {seconds_until(lambda: all(gone(pid) for pid in pids), 4):.2f} s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_tree_cleanly(start_script, short_directory, number):
    process, pids = up(start_script, short_directory)

    process.send_signal(number)

    assert process.stdout.read() == f"ended Asked(by={number!r})\nclean\n"
    assert process.wait() == 0
    seconds_until(lambda: all(gone(pid) for pid in pids), 4)


def test_a_signal_while_starting_stops_what_was_started(start_script):
    process = start_script(UP, "import time; time.sleep(60)", ROOT)
    assert process.stdout.readline() == "starting\n"

    process.send_signal(signal.SIGINT)

    assert process.stdout.read() == "stopped while starting by SIGINT\nclean\n"


def test_a_second_signal_does_not_wait_for_a_program_that_will_not_stop(start_script, short_directory):
    stubborn = (
        "import signal, sys, time; signal.signal(15, signal.SIG_IGN); open(sys.argv[1], 'w'); time.sleep(60)"
    )
    process = start_script(UP, stubborn, ROOT)
    assert [process.stdout.readline() for _ in range(2)] == ["starting\n", "watching\n"]

    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline().startswith("ended")
    began = time.monotonic()
    # The signal may come before the tree has begun to stop, so it is sent until the end.
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        time.sleep(0.05)

    assert time.monotonic() - began < 5 * slowness()


def test_programs_stop_in_reverse_order_of_their_start(tmp_path):
    record = tmp_path / "record"
    script = 'trap \'echo stop $0 >> "$1"; exit\' TERM; echo start $0 >> "$1"; while :; do sleep 0.05; done'

    with Tree(tmp_path) as tree:
        for name in ("one", "two"):
            tree.add(
                name,
                [*shell(script), name, str(record)],
                {},
                ready=lambda name=name: record.exists() and f"start {name}" in record.read_text(),
            )

    assert record.read_text().splitlines() == ["start one", "start two", "stop two", "stop one"]


def test_the_death_of_a_child_that_is_not_restarted_ends_the_tree(tree):
    tree.add("once", shell("sleep 0.3; exit 7"), {}, ready=lambda: True, restart=False)

    assert tree.run() == Died("once", 7)


def test_the_death_of_a_server_ends_the_tree_and_stops_the_others(home, account):
    valkey = embedded_valkey(home, account)
    with Tree(home.logs) as tree:
        tree.adopt(valkey)
        other = tree.add("other", shell("sleep 60"), {}, ready=lambda: True)
        pid = other.pid
        os.kill(valkey.pid, signal.SIGKILL)

        ending = tree.run()

    assert ending == Died("valkey", -signal.SIGKILL)
    assert gone(pid)


def test_a_program_that_dies_is_started_again_after_a_pause(tree, tmp_path, lines):
    starts = tmp_path / "starts"
    again = tree.add(
        "again", [*shell('echo x >> "$0"; sleep 0.4; exit 3'), str(starts)], {}, ready=starts.exists
    )
    first = again.pid
    # The tree ends when this one does, after the other has come back.
    watcher = 'until [ "$(grep -c x "$0")" -ge 2 ]; do sleep 0.05; done; exit 9'
    tree.add("watcher", [*shell(watcher), str(starts)], {}, ready=lambda: True, restart=False)

    ending = tree.run()

    assert ending == Died("watcher", 9)
    assert again.pid != first
    assert any("again ended with 3; it starts again in 1 s" in line for line in lines)


def test_what_a_dead_program_left_in_its_group_is_gone_before_its_successor_starts(tree, tmp_path):
    helpers = tmp_path / "helpers"
    script = 'trap "" TERM; (exec sleep 60) & echo $! >> "$0"; sleep 0.2; exit 1'
    tree.add("parent", [*shell(script), str(helpers)], {}, ready=helpers.exists)
    watcher = 'until [ "$(wc -l < "$0")" -ge 2 ]; do sleep 0.05; done'
    tree.add("watcher", [*shell(watcher), str(helpers)], {}, ready=lambda: True, restart=False)

    tree.run()

    assert gone(int(helpers.read_text().split()[0]))


def test_a_program_that_dies_before_it_is_ready_says_its_last_words(tree):
    with pytest.raises(ServiceFailed, match="no such provider") as failure:
        tree.add("gateway", shell("echo no such provider >&2; exit 2"), {}, ready=lambda: False)

    assert failure.value.name == "gateway"
    assert "ended with 2" in str(failure.value)


def test_a_program_that_never_gets_ready_is_stopped(tree):
    with pytest.raises(ServiceFailed, match=r"not ready after 0\.2 s"):
        tree.add("slow", shell("sleep 60"), {}, ready=lambda: False, ready_within=0.2)


def test_lines_of_a_log_are_shown_with_their_childs_name_and_kept(tree, tmp_path, lines):
    tree.add(
        "talker",
        shell("echo one; printf 'tw'; sleep 0.3; echo o; printf '\\377\\n'; sleep 0.3"),
        {},
        ready=lambda: True,
        restart=False,
    )

    tree.run()

    assert [line for line in lines if "talker" in line] == [
        "talker   | one",
        "talker   | two",
        "talker   | \\xff",
    ]
    assert (tmp_path / "talker.log").read_bytes() == b"one\ntwo\n\xff\n"
    assert (tmp_path / "talker.log").stat().st_mode & 0o777 == 0o600


def test_a_log_that_grew_large_is_set_aside_at_the_next_start(tmp_path):
    log = tmp_path / "x.log"
    log.write_bytes(b"x" * 101)

    os.close(child.open_log(log, keep_bytes=100))

    assert log.read_bytes() == b""
    assert (tmp_path / "x.log.1").stat().st_size == 101


def test_pauses_grow_to_half_a_minute_and_start_over_after_a_stable_minute():
    backoff = Backoff()

    quick = [backoff.pause(lived=0.1) for _ in range(7)]

    assert quick == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.pause(lived=61) == 1


def test_a_child_gets_exactly_the_environment_it_was_given(tree, tmp_path):
    out = tmp_path / "env.json"
    code = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'))"
    tree.add(
        "env", [sys.executable, "-c", code, str(out)], {"ONLY": "this"}, ready=lambda: True, restart=False
    )
    tree.run()

    assert set(json.loads(out.read_text())) - {"LC_CTYPE"} == {"ONLY", "PIDISPATCH_PARENT_PIPE"}
