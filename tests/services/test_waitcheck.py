"""A check program is real here: what it may see, how long it may take, and that nothing of it stays."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pidispatch.ports import CheckEnd
from pidispatch.services import waitcheck
from pidispatch.services.waitcheck import CheckPrograms
from tests.support.patience import slowness, until


@pytest.fixture
def program(tmp_path):
    def write(body, name="check"):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{textwrap.dedent(body)}")
        path.chmod(0o755)
        return str(path)

    return write


def ask(program, target="acme/web#7", timeout=20.0):
    return CheckPrograms(timeout=timeout, home="/home/ada").ask(program, target)


def gone(pid):
    """Whether the process has ended: one that nobody has reaped yet has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 127, 255])
def test_the_exit_code_is_the_answer(program, code):
    assert ask(program(f"exit {code}")) == CheckEnd(code)


def test_a_program_that_dies_by_a_signal_has_no_exit_code_that_says_something(program):
    assert ask(program("kill -9 $$")).exit_code == -9


def test_it_gets_the_target_and_no_word_more_and_no_shell_reads_it(program, tmp_path):
    target = "grp/$(touch /tmp/x)`id`;p!12 'a\" *"

    end = ask(
        program(f"""printf '%s|' "$#" "$@" > {tmp_path}/seen; pwd >> {tmp_path}/seen; exit 3"""), target
    )

    assert end.exit_code == 3
    assert (tmp_path / "seen").read_text() == f"1|{target}|/\n"


def test_it_sees_no_variable_of_ours(program, tmp_path, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:secret@h/d")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")

    ask(program(f"env > {tmp_path}/seen"))

    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "LANG"}


def test_its_input_is_empty_and_it_inherits_no_file_of_ours(program, tmp_path):
    with Path("/etc/hostname").open() as secret:
        os.set_inheritable(secret.fileno(), True)

        end = ask(program(f"cat > {tmp_path}/read; ls /proc/$$/fd > {tmp_path}/fds"))

        assert end.exit_code == 0
        assert (tmp_path / "read").read_text() == ""
        assert str(secret.fileno()) not in (tmp_path / "fds").read_text().split() or secret.fileno() < 3


def test_its_output_is_counted_and_it_never_waits_for_a_reader(program):
    assert ask(program("head -c 300000 /dev/zero; head -c 1000 /dev/zero >&2; exit 3")) == CheckEnd(
        3, 301_000
    )


def test_a_flood_of_output_is_a_fault(program):
    began = time.monotonic()

    end = ask(program("exec yes"))

    assert (end.exit_code, end.problem) == (None, "it wrote more than 1,048,576 bytes")
    assert end.output_bytes < 2 * waitcheck.OUTPUT_MAX
    assert time.monotonic() - began < 10 * slowness()


def test_a_program_that_takes_too_long_is_ended_with_all_it_started(program, tmp_path):
    body = f"sleep 300 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; wait"

    end = ask(program(body), timeout=1.0)

    assert (end.exit_code, end.problem, end.broken_off) == (None, "it took longer than 1 s", False)
    for name in ("child", "self"):
        pid = (tmp_path / name).read_text().strip()
        until(lambda pid=pid: gone(pid))


def test_a_program_that_will_not_end_is_killed(program, tmp_path, monkeypatch):
    monkeypatch.setattr(waitcheck, "GRACE_SECONDS", 0.3)
    body = f"trap '' TERM; echo $$ > {tmp_path}/self; while :; do sleep 0.1; done"

    ask(program(body), timeout=1.0)

    assert gone((tmp_path / "self").read_text().strip())


def test_a_program_may_tidy_up_when_its_time_is_over(program, tmp_path):
    ask(program(f"trap 'touch {tmp_path}/tidy; exit 0' TERM; sleep 300 & wait"), timeout=1.0)

    assert (tmp_path / "tidy").exists()


def test_what_it_leaves_behind_is_ended_and_does_not_hold_its_answer_up(program, tmp_path):
    began = time.monotonic()

    end = ask(program(f"sleep 300 & echo $! > {tmp_path}/child; exit 3"))

    assert end.exit_code == 3
    assert time.monotonic() - began < 10 * slowness()
    until(lambda: gone((tmp_path / "child").read_text().strip()))


def test_a_program_that_is_not_there_or_may_not_be_executed_gives_no_answer(program, tmp_path):
    plain = Path(program("exit 0"))
    plain.chmod(0o644)

    for path in (str(tmp_path / "none"), str(tmp_path), str(plain)):
        assert ask(path) == CheckEnd(None, problem="it is no file that may be executed"), path


def test_a_file_that_is_no_program_is_never_go(tmp_path):
    path = tmp_path / "garbage"
    path.write_bytes(b"\x00\x01garbage")
    path.chmod(0o755)

    assert ask(str(path)).exit_code == 1


def test_a_check_that_is_broken_off_ends_at_once_and_none_begins(program, tmp_path):
    checks = CheckPrograms(timeout=60, home=None)
    slow = program(
        f"trap '' TERM; echo $$ > {tmp_path}/self.new; mv {tmp_path}/self.new {tmp_path}/self; sleep 300"
    )
    ends = []
    thread = threading.Thread(target=lambda: ends.append(checks.ask(slow, "t")))
    thread.start()
    until((tmp_path / "self").exists)

    checks.break_off()
    thread.join(5)

    assert ends[0].broken_off
    assert ends[0].exit_code is None
    assert gone((tmp_path / "self").read_text().strip())
    assert checks.ask(slow, "t").broken_off


ASKING = """
import sys
from pidispatch.services.waitcheck import CheckPrograms
CheckPrograms(timeout=300, home=None).ask(sys.argv[1], "t")
"""


def test_a_check_dies_with_the_worker_that_asks(program, tmp_path):
    slow = program(f"echo $$ > {tmp_path}/self.new; mv {tmp_path}/self.new {tmp_path}/self; exec sleep 300")
    worker = subprocess.Popen([sys.executable, "-c", ASKING, slow])
    until((tmp_path / "self").exists)

    worker.kill()
    worker.wait()

    until(lambda: gone((tmp_path / "self").read_text().strip()))
