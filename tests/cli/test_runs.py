"""`runs` and `show`: what is known of runs, for people and for programs."""

import pytest

from pidispatch.domain.chaintree import Harvest
from pidispatch.domain.outbox import Child, Refusal
from pidispatch.domain.run import BoxEnd
from pidispatch.entrypoints.cli.wording import money_in_words
from pidispatch.ports import CallEnd
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.cli.lives import CONTAINER, DONE, FAILED, begin, call, end
from tests.store.builders import a_host, a_run, row, value
from tests.support.calls import cost, opened, worst

RECORD = [
    "id", "public_id", "kind", "target", "flow", "trigger_type", "state", "outcome", "result", "reason",
    "why", "remarks", "cause", "until", "blocked_by", "place", "priority", "attempt", "host", "pinned_host",
    "provider", "model", "image", "max_turns", "max_tokens", "stop_reason", "exit_code", "turns",
    "calls", "tokens_in", "tokens_out", "tokens_cache_read", "tokens_cache_write", "tokens_total",
    "cost_micros", "cost_class", "cost_cap_micros", "held_micros", "created_at", "queued_at", "state_since", "admitted_at", "started_at", "ended_at",
    "deadline_at", "seconds", "requeue_of", "unreachable", "trigger_id", "continues",
]  # fmt: skip
ATTEMPT = [
    "attempt", "host", "container_name", "container_id", "image_id", "admitted_at", "boxed_at", "go_at",
    "exited_at", "ended_at", "exit_code", "oom_killed", "outcome", "reason", "why", "report_verified",
    "refused_reason", "refused_at", "refusals", "refused_needed", "refused_left",
    "telemetry", "compared",
]  # fmt: skip
USAGE = [
    "provider", "model", "calls", "failed_calls", "estimated_calls", "tokens_in", "tokens_out",
    "tokens_cache_read", "tokens_cache_write", "tokens_reasoning", "cost_micros", "cost_class",
    "price_version", "held_micros",
]  # fmt: skip
RESERVATION = ["scope", "unit", "period", "starts_on", "state", "held", "settled", "used"]
CHAIN = ["depth", "parent", "root", "refused", "answers"]
BOUNDS = ["cost_cap_micros", "cost_cap_asked", "allowed_models", "excluded_tools"]
PAYLOAD = ["folder", "task_bytes", "task_kept_bytes", "event_bytes", "expires_at", "skills_dir"]


def name_of(database, run_id):
    return str(value(database, "SELECT public_id FROM runs WHERE id = :id", id=run_id))


def an_ended_run(database, folder="/repos/done", verdict=None):
    run_id = a_run(database, folder=folder)
    claim = begin(database, f"{run_id:064x}")
    call(database, claim)
    end(database, claim, *([] if verdict is None else [verdict]), code=0 if verdict is None else 1)
    return run_id


def test_no_runs_are_no_error(pidispatch):
    assert pidispatch("runs").out == "no runs\n"
    assert pidispatch("runs", "--state", "held").out == "no runs in state held\n"
    assert pidispatch("runs", "--json").document == []


def test_the_newest_run_is_first_and_each_is_one_line(pidispatch, database):
    ended = an_ended_run(database, verdict=FAILED)
    waiting = a_run(database)

    said = pidispatch("runs")

    heading, first, second = said.out.splitlines()
    assert heading.split() == [
        "run",
        "target",
        "state",
        "model",
        "turns",
        "tokens",
        "cost",
        "seconds",
        "asked",
        "for",
    ]
    assert first.split()[:3] == [name_of(database, waiting), f"local:{_folder(database, waiting)}", "queued"]
    assert second.startswith(name_of(database, ended))
    assert "failed: infra (agent-died)  happy      1     110  no price      0." in second


def _folder(database, run_id):
    return str(value(database, "SELECT target FROM runs WHERE id = :id", id=run_id)).removeprefix("local:")


def test_runs_are_limited_and_chosen_by_state(pidispatch, database):
    an_ended_run(database)
    waiting = [a_run(database) for _ in range(3)]

    assert len(pidispatch("runs", "--json", "--limit", "2").document) == 2
    found = pidispatch("runs", "--json", "--state", "queued").document
    assert [run["id"] for run in found] == waiting[::-1]
    assert pidispatch("runs", "--state", "nonsense").code == 2
    assert pidispatch("runs", "--limit", "0").code == 2


def test_a_listed_run_has_keys_and_kinds_that_stay(pidispatch, database):
    an_ended_run(database)

    run = pidispatch("runs", "--json").document[0]

    assert list(run) == RECORD
    assert (run["state"], run["outcome"], run["turns"], run["tokens_total"]) == ("ended", "completed", 1, 110)
    assert run["created_at"].endswith("+00:00")
    assert "T" in run["created_at"]
    assert isinstance(run["seconds"], float)


def test_a_shown_run_has_keys_that_stay(pidispatch, database):
    run_id = an_ended_run(database)

    shown = pidispatch("show", str(run_id), "--json").document

    keys = [
        "run", "attempts", "usage", "adjustments", "reservations", "payload", "admission", "reported", "chain", "wait", "asked", "session",
        "egress", "bounds",
    ]  # fmt: skip
    assert list(shown) == keys
    parts = (
        shown["run"],
        shown["attempts"][0],
        shown["usage"][0],
        shown["reservations"][0],
        shown["payload"],
        shown["chain"],
        shown["bounds"],
    )
    assert [list(part) for part in parts] == [RECORD, ATTEMPT, USAGE, RESERVATION, PAYLOAD, CHAIN, BOUNDS]
    assert shown["usage"][0]["tokens_in"] == 100
    assert shown["reservations"][0]["state"] == "settled"
    assert shown["payload"]["folder"] == "/repos/done"


def test_what_bounds_a_run_is_shown(pidispatch, database):
    bounds = {"cost_cap_micros": 500_000, "allowed_models": ("a/b", "c/d"), "excluded_tools": ("bash",)}
    run_id = a_run(database, skills_dir=b"/srv/skills", **bounds)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET cost_cap_micros = 250000")

    said = " ".join(pidispatch("show", str(run_id)).out.split())

    for words in (
        "models a/b, c/d",
        "without tools bash",
        "skills from /srv/skills",
        "may spend $0.25 ($0.50 was asked for)",
    ):
        assert words in said


def test_a_running_run_shows_what_it_has_used_so_far(pidispatch, database):
    a_run(database)
    claim = begin(database)
    call(database, claim)
    call(database, claim)

    shown = pidispatch("show", "--json", str(claim.run_id)).document

    assert (shown["run"]["turns"], shown["run"]["tokens_total"], shown["run"]["calls"]) == (2, 220, 2)
    assert shown["usage"][0]["calls"] == 2
    assert (shown["attempts"][0]["container_id"], shown["attempts"][0]["exit_code"]) == (CONTAINER, None)


def test_a_person_sees_attempts_usage_and_reservations(pidispatch, database):
    run_id = an_ended_run(database, verdict=FAILED)

    said = pidispatch("show", str(run_id)).out

    for words in (
        "folder           /repos/done\n",
        "state            failed: infra (agent-died)\n",
        "exit code        1\n",
        "tokens           110 (100 in, 10 out) in 1 call\n",
        "task             4 bytes, 4 kept\n",
        "failed   infra agent-died",
        "scripted  happy      1       0          0  100   10",
        "* day   runs  2",
    ):
        assert words in said


def spending(database, cap=1_000_000):
    """A run at work under a cap of dollars, and the ledger that its calls go to."""
    a_run(database)
    claim = begin(database)
    change(database, f"UPDATE runs SET cost_cap_micros = {cap}")
    return claim, PostgresCallLedger(database)


def change(database, statement):
    with database.transaction() as connection:
        connection.exec_driver_sql(statement)


def test_a_person_sees_what_a_run_cost_what_it_holds_and_what_was_refused(pidispatch, database):
    claim, ledger = spending(database)
    ledger.settle_call(
        opened(ledger, claim.run_id, worst=worst(500_000)), CallEnd(200, "stop", tokens_in=1), cost(250_000)
    )
    opened(ledger, claim.run_id, worst=worst(700_000))
    for _ in range(2):
        ledger.open_call(claim.run_id, 1, provider="scripted", model="happy", api="x", worst=worst(100_000))

    running = pidispatch("show", str(claim.run_id)).out
    PostgresTickets(database, timeout=1).assume_calls(claim.run_id)
    end(database, claim)

    assert "  $0.25 of at most $1.00, $0.70 held\n" in running
    shown = pidispatch("show", str(claim.run_id)).out
    assert "  at most $0.95 of at most $1.00\n" in shown
    assert (
        "attempt 1: 2 calls refused, the last for cost-cap: it needed at least $0.10, and $0.05 was left, 2"
        in shown
    )
    said = pidispatch("explain", str(claim.run_id)).out
    assert "2 calls refused, the last for cost-cap: it needed at least $0.10, and $0.05 was left\n" in said
    assert said.endswith("in 2 calls, at most $0.95 of at most $1.00\n")


def test_a_late_figure_is_shown_beside_the_record_which_stays(pidispatch, database):
    claim, ledger = spending(database)
    call_id = opened(ledger, claim.run_id, worst=worst(500_000))
    PostgresTickets(database, timeout=1).assume_calls(claim.run_id)
    end(database, claim)

    ledger.settle_call(call_id, CallEnd(200, "stop", tokens_in=9), cost(20_000))

    shown = pidispatch("show", str(claim.run_id))
    assert "  at most $0.50 of at most $1.00\n" in shown.out
    assert "of a call of happy 0 tokens are 9, $0.50 is $0.02\n" in shown.out
    told = pidispatch("show", str(claim.run_id), "--json").document["adjustments"]
    assert [(late["micros_before"], late["micros_after"], late["in_windows"]) for late in told] == [
        (500_000, 20_000, True)
    ]


@pytest.mark.parametrize(
    ("micros", "cost_class", "words"),
    [
        (None, "unrated", "no price"),
        (250_000, "metered", "$0.25"),
        (250_000, "assumed", "at most $0.25"),
        (250_000, "floor", "≥ $0.25"),
        (250_000, "estimate", "~ $0.25 est."),
        (0, "plan", "$0.00 (plan)"),
    ],
)
def test_money_says_how_far_it_may_be_trusted(micros, cost_class, words):
    assert money_in_words(micros, cost_class) == words


def test_a_run_is_found_by_number_id_or_the_beginning_of_one(pidispatch, database):
    run_id = a_run(database)
    name = name_of(database, run_id)
    a_run(database)
    with database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET public_id = 'local-abcdef' WHERE id = {run_id}")

    for spelling in (str(run_id), "local-abcdef", "local-abc", "abc"):
        assert pidispatch("show", spelling, "--json").document["run"]["id"] == run_id, (spelling, name)


def test_a_beginning_of_several_runs_names_them(pidispatch, database):
    names = [name_of(database, a_run(database)) for _ in range(2)]

    said = pidispatch("show", "local-")

    assert said.code == 1
    assert said.err.startswith("pidispatch: several runs begin with local-: ")
    assert all(name in said.err for name in names)


@pytest.mark.parametrize(
    "name", ["nobody", "99999999999999999999999", "9" * 19, "%", "", "x" * 300, "\udcff", "a\x1b[31mb\n"]
)
def test_an_unknown_run_is_one_clear_line(pidispatch, name):
    for command in ("show", "logs"):
        said = pidispatch(command, name)

        assert said.code == 1
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert "\x1b" not in said.err
        assert ("there is no run" in said.err) or ("is not the name of a run" in said.err)


def test_a_waiting_run_says_why_behind_whom_and_its_place(pidispatch, database):
    a_host(database)
    first = a_run(database, folder="/repos/one")
    begin(database)
    waiting = a_run(database, folder="/repos/two")
    with database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE runs SET state = 'deferred', cause = 'scope', blocked_by = {first} WHERE id = {waiting}"
        )

    run = pidispatch("show", str(waiting), "--json").document["run"]
    said = pidispatch("show", str(waiting)).out

    assert (run["cause"], run["blocked_by"], run["place"]) == ("scope", name_of(database, first), 1)
    assert "state          deferred: scope\n" in said
    assert f"behind         {name_of(database, first)}\n" in said


def test_what_came_from_outside_moves_no_cursor(pidispatch, database):
    run_id = a_run(
        database,
        folder="/repos/\x1b]0;own\x07\u202eed\n\udcff".encode(errors="surrogateescape").decode("latin-1"),
    )
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE runs SET target = E'local:\\x1b[2J\\u202e\\nx', model = E'\\x1b[31mred'"
        )

    for arguments in (("runs",), ("show", str(run_id)), ("runs", "--json"), ("show", str(run_id), "--json")):
        said = pidispatch(*arguments).out
        assert said.isascii() or said.replace("\n", "").isprintable()
        assert not any(char in said for char in "\x1b\x07\u202e")


def test_what_a_run_asked_for_is_shown_with_it_and_with_what_it_became(pidispatch, database):
    run_id = a_run(database)
    claim = PostgresRuns(database).finishing(begin(database, f"{run_id:064x}"))
    child = Child("1", "chain-0123456789abcdef", "review", b"look", b"{}")
    refused = [Refusal(str(number), "chain-gate-deny", "no-skill") for number in range(2, 104)]
    assert PostgresEndings(database).end(claim, DONE, BoxEnd(0), harvest=Harvest((child, *refused)))

    parent, made = pidispatch("show", str(run_id)).out, pidispatch("show", child.public_id).out

    assert child.public_id in parent
    assert parent.count("chain-gate-deny no-skill") == 99
    assert parent.endswith("3 more were refused\n")
    assert f"asked for by   {name_of(database, run_id)} (depth 1)\n" in made
    answer = pidispatch("show", str(run_id), "--json").document["chain"]["answers"][1]
    assert answer == {"request": "2", "run": None, "refused": "chain-gate-deny", "why": "no-skill"}


def test_a_deleted_payload_is_said(pidispatch, database):
    run_id = an_ended_run(database)
    with database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM run_payloads")

    assert "task       deleted\n" in pidispatch("show", str(run_id)).out
    assert pidispatch("show", str(run_id), "--json").document["payload"] is None


def test_the_numbers_are_those_of_the_view(pidispatch, database):
    run_id = an_ended_run(database)

    run = pidispatch("show", str(run_id), "--json").document["run"]

    seen = row(
        database, "SELECT outcome, result, turns, calls, tokens_in, tokens_total, exit_code FROM run_history"
    )
    assert run | seen == run


def test_what_a_box_said_of_itself_stands_beside_what_was_measured(pidispatch, database):
    run_id = a_run(database)
    claim = begin(database, f"{run_id:064x}")
    call(database, claim)
    end(database, claim)
    said = {
        "code": 0,
        "turns": 12,
        "tokens": {"total": 15, "cost": 2.5},
        "context": {"tokens": 900, "window": 200_000},
        "message": "\x1b[2Jdone\nand more",
    }
    PostgresTickets(database, timeout=60).keep_telemetry(run_id, 1, said)

    shown = pidispatch("show", str(run_id)).out
    (attempt,) = pidispatch("show", str(run_id), "--json").document["attempts"]

    lines = [line.split() for line in shown[shown.index("attempt 1 said") :].splitlines()]
    assert lines[0] == ["attempt", "1", "said", "of", "itself", "measured"]
    assert ["turns", "12", "1", "differs"] in lines
    assert ["exit", "code", "0", "0"] in lines
    assert ["context", "900", "of", "200,000", "tokens"] in lines
    assert ["message", "\\x1b[2Jdone", "and", "more"] in lines
    assert attempt["telemetry"] == said
    assert {"of": "turns", "said": 12, "measured": 1, "differs": True} in attempt["compared"]


def test_a_run_whose_box_said_nothing_has_no_such_table(pidispatch, database):
    run_id = an_ended_run(database)

    assert "of itself" not in pidispatch("show", str(run_id)).out
