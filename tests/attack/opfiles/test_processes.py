"""What real processes say of the operator's files and of their queues, and what an import alone leaves behind."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.store.builders import value

PATIENCE = 300  # seconds, for a machine under load: no test waits for it to pass


class Started:
    """A process whose lines can be waited for."""

    def __init__(self, arguments, environ, cwd):
        self.process = subprocess.Popen(
            arguments, env=environ, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put(None)

    def until(self, event):
        """The first line of the log with this event, as a dict."""
        seen = []
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            seen.append(line)
            found = _event(line)
            if found.get("event") == event:
                return found
        raise AssertionError("".join(seen))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)


def _event(line):
    try:
        found = json.loads(line[line.index("{") :])
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@pytest.fixture
def environ(tmp_path, short_directory, database_url, redis_url):
    (tmp_path / "limits.json").write_text('{"version": 1, "limits": [{"scope": "/srv/site", "day": 1}]}')
    return {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path.cwd()),
        "PIDISPATCH_HOME": str(tmp_path / "home"), "PIDISPATCH_RUN_DIR": str(short_directory / "r"),
        "PI_WORKER_NAME": "h1", "DATABASE_URL": database_url, "REDIS_URL": redis_url,
        "PI_SCOPED_LIMITS_FILE": str(tmp_path / "limits.json"), "PI_AUTH_FROM_PI": "0",
        "PIDISPATCH_UPSTREAM_SCRIPTED": "http://127.0.0.1:1/v1",
    }  # fmt: skip


def test_importing_the_actors_makes_no_worker(environ, tmp_path, database):
    done = subprocess.run(
        [sys.executable, "-c", "import pidispatch.actors"],
        env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert value(database, "SELECT count(*) FROM workers") == 0


def test_an_idle_worker_tells_its_caps_a_bad_edit_and_that_it_hears_no_bell(environ, tmp_path, database):
    command = [
        sys.executable,
        "-m",
        "dramatiq",
        "pidispatch.actors",
        "--processes",
        "1",
        "--threads",
        "1",
        "-Q",
        "other",
    ]
    worker = Started(command, environ, tmp_path)
    try:
        assert "/srv/site: 1 runs a day" in worker.until("limits_in_force")["caps"]
        told = worker.until("listens_to_no_queue_of_its_host")
        assert (told["missing"], told["listens_to"]) == (["runs.h1", "ends.h1"], ["other"])
        assert value(database, "SELECT count(*) FROM workers") == 1
        (tmp_path / "limits.json").write_text("{")
        assert worker.until("scoped_limits_reload_invalid")["kept"] == "the last good edit"
    finally:
        worker.stop()


def test_a_gateway_starts_with_what_was_good_and_tells_a_bad_edit_while_nobody_calls(environ, tmp_path):
    prices, providers = tmp_path / "prices.json", tmp_path / "providers.json"
    prices.write_text('{"version": 1, "free": ["a/b"]}')
    providers.write_text(
        '{"version": 1, "providers": {"mine": {"baseUrl": "http://127.0.0.1:1/v1", "key": "none"}}}'
    )
    (tmp_path / "egress.conf").write_text("example.com\n")
    environ |= {
        "PIDISPATCH_PRICES_FILE": str(prices), "PIDISPATCH_PROVIDERS_FILE": str(providers),
        "PIDISPATCH_EGRESS_FILE": str(tmp_path / "egress.conf"),
    }  # fmt: skip
    command = [sys.executable, "-m", "pidispatch.entrypoints.gateway"]
    first = Started(command, environ, tmp_path)
    try:
        first.until("gateway.ready")
        (tmp_path / "egress.conf").write_text("not a host at all\n")
        assert "egress.conf:1" in first.until("egress_reload_invalid")["problems"][0]
        prices.write_text("{")
        first.until("prices_file_reload_invalid")
        providers.write_text("{")
        first.until("providers_reload_invalid")
    finally:
        first.stop()

    second = Started(command, environ, tmp_path)
    try:
        assert second.until("providers_loaded")["providers"] == 1
        assert second.until("prices_file_loaded")["free"] == 1
        assert second.until("egress_loaded")["hosts"] == 1
        second.until("gateway.ready")
    finally:
        second.stop()
