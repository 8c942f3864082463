"""`run`: what is asked for becomes a row, byte for byte, and the answer is true."""

from tests.store.builders import row


def test_a_request_becomes_a_queued_run(pidispatch, gitbox, folder, database):
    said = pidispatch(
        "run", str(folder), "--task", "do it", "--flow", "fix", "--max-turns", "3", "--priority", "5"
    )

    kept = row(database, "SELECT state, flow, max_turns, priority, provider, pinned_host FROM runs")
    assert kept == {
        "state": "queued", "flow": "fix", "max_turns": 3, "priority": 5, "provider": None, "pinned_host": "h1"
    }  # fmt: skip
    assert said.code == 0
