"""Every gate is told in its order, for each way a look at a run can end."""

from datetime import UTC, datetime, timedelta

import pytest

from pidispatch.domain.runs.explain import (
    GATES,
    LastAnswer,
    Surroundings,
    Verdict,
    Waiter,
    gate_lines,
    last_answer,
    waits_for,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
PARTS = {
    "image": "sha256:1",
    "models": {"models": None, "cost_cap": None},
    "provider": {"api": "openai-completions", "key": True},
    "folder": {"owner": 1000},
    "pause-windows": None,
}
SLOTS = [{"scope": "folder:a", "occupied": 0, "limit": 2}]
ROOM = {"host": "h1", "free": 2, "capacity": 3}


def window(used, state="ok", period="day", scope="*"):
    return {
        "scope": scope, "unit": "runs", "period": period, "used": used, "cap": 25, "amount": 1, "state": state
    }  # fmt: skip


def parts(*names):
    return {name: PARTS[name] for name in names}


def answer(kind, **words):
    return {"kind": kind, "at": NOW.isoformat(), **words}


def refused(reason, why=None):
    return answer("refused", reason=reason, why=why)


INSIDE = {"gates": PARTS, "pause": [], "slots": SLOTS, "room": ROOM}
LOOKS = {
    "settings": ({"gates": {"settings": "settings-overlay-invalid"}}, refused("settings-overlay-invalid")),
    "a word of the files that is new": ({"gates": {"settings": "limits-invalid"}}, refused("limits-invalid")),
    "an engine that is away": ({"gates": {}}, answer("deferred", cause="docker-unreachable")),
    "a missing image": ({"gates": {"image": None}}, refused("job-image-missing")),
    "a model that is not allowed": ({"gates": parts("image", "models")}, refused("model-not-allowed")),
    "a gateway that is away": (
        {"gates": parts("image", "models")},
        answer("deferred", cause="gateway-unreachable"),
    ),
    "a provider that is busy": (
        {"gates": parts("image", "models", "provider")},
        answer("deferred", cause="provider-busy"),
    ),
    "a provider without a key": (
        {"gates": parts("image", "models", "provider")},
        refused("provider-unconfigured", "no-credential"),
    ),
    "a folder that is gone": (
        {"gates": parts("image", "models", "provider")},
        refused("local-folder-missing"),
    ),
    "a pause window": ({"gates": PARTS}, answer("deferred", cause="pause-window")),
    "dollars without a cap on the run": (
        {"gates": PARTS},
        refused("config-refused", "dollar-window-without-run-cap"),
    ),
    "a pause": ({"gates": PARTS, "pause": ["*"]}, answer("deferred", cause="paused")),
    "a busy scope": ({"gates": PARTS, "pause": [], "slots": SLOTS}, answer("deferred", cause="scope")),
}
STOPPED_AT = {
    "settings": "settings",
    "a word of the files that is new": "settings",
    "an engine that is away": "image",
    "a missing image": "image",
    "a model that is not allowed": "models",
    "a gateway that is away": "provider",
    "a provider that is busy": "provider",
    "a provider without a key": "provider",
    "a folder that is gone": "folder",
    "a pause window": "pause-windows",
    "dollars without a cap on the run": "run-cap",
    "a pause": "pause",
    "a busy scope": "slots",
}


@pytest.mark.parametrize("look", LOOKS)
def test_the_gates_before_are_passed_and_those_after_are_not_reached(look):
    facts, answered = LOOKS[look]
    at = GATES.index(STOPPED_AT[look])

    lines = gate_lines({**facts, "answer": answered})

    assert [line.gate for line in lines] == list(GATES)
    assert [line.verdict for line in lines] == [
        *[Verdict.PASSED] * at,
        Verdict.STOPPED,
        *[Verdict.NOT_REACHED] * (len(GATES) - at - 1),
    ]
    assert lines[at].why == " ".join(
        word for word in (answered.get("reason"), answered.get("cause"), answered.get("why")) if word
    )


def test_facts_of_an_earlier_version_show_no_gate_for_models():
    lines = gate_lines({"gates": parts("image", "provider"), "answer": refused("local-folder-missing")})

    assert [line.gate for line in lines[:4]] == ["settings", "image", "provider", "folder"]
    assert lines[3].verdict is Verdict.STOPPED


def test_an_admitted_run_passed_every_gate_with_its_numbers():
    windows = [window(3, scope="folder:a"), window(7)]

    lines = gate_lines({**INSIDE, "windows": windows, "answer": answer("admitted")})

    assert {line.verdict for line in lines} == {Verdict.PASSED}
    assert [line.saw for line in lines] == [
        None, *PARTS.values(), None, [], SLOTS, ROOM, *windows,
    ]  # fmt: skip
    assert [line.gate for line in lines[-2:]] == ["window", "window"]


def test_a_refusal_by_a_cap_shows_every_window_and_which_were_full():
    windows = [window(3, scope="folder:a"), window(26, "over"), window(30, period="week")]

    lines = gate_lines({**INSIDE, "windows": windows, "answer": refused("over-budget", "day-cap")})

    assert [line.verdict for line in lines[:-3]] == [Verdict.PASSED] * 10
    assert [(line.verdict, line.why) for line in lines[-3:]] == [
        (Verdict.PASSED, None),
        (Verdict.STOPPED, "over-budget day-cap"),
        (Verdict.PASSED, None),
    ]


def test_a_further_attempt_kept_its_windows():
    lines = gate_lines({**INSIDE, "windows": "kept", "answer": answer("admitted")})

    assert (lines[-1].gate, lines[-1].verdict, lines[-1].saw) == ("windows", Verdict.PASSED, "kept")


def test_a_run_that_nobody_has_looked_at_reached_no_gate():
    assert {line.verdict for line in gate_lines(None)} == {Verdict.NOT_REACHED}
    assert last_answer(None) is None


def test_facts_without_an_answer_are_told_as_far_as_they_go():
    assert last_answer({"gates": PARTS}) is None
    assert [line.gate for line in gate_lines({"gates": PARTS})] == list(GATES)
    assert last_answer({"answer": refused("over-budget", "day-cap")}) == LastAnswer(
        "refused", NOW.isoformat(), "over-budget", "day-cap"
    )


LATER = NOW + timedelta(minutes=5)
IDLE = {"now": NOW, "host": "h1", "host_used": 0, "host_capacity": 3, "workers": 1}


@pytest.mark.parametrize(
    ("run", "around", "word", "numbers"),
    [
        ({}, {}, "a-worker-to-look", {}),
        ({}, {"host_used": 3}, "host-full", {"host": "h1", "used": 3, "capacity": 3}),
        ({}, {"workers": 0, "host_used": 3}, "no-worker", {"host": "h1"}),
        ({}, {"full_scopes": ["project:x"], "workers": 0}, "scope", {"full": ["project:x"]}),
        ({"cause": "scope"}, {"busy_with": "local-1"}, "scope", {"behind": "local-1"}),
        ({"cause": "pause-window", "until": LATER}, {"busy_with": "x"}, "pause-window", {"until": LATER}),
        ({"cause": "pause-window", "until": NOW}, {}, "a-worker-to-look", {}),
        ({"state": "held", "cause": "wait-for"}, {}, "wait-for", {}),
        ({"until": LATER}, {"scopes_paused": ["folder:a"]}, "scope-paused", {"scopes": ["folder:a"]}),
        (
            {},
            {"scopes_paused": ["folder:a"], "everything_paused_at": NOW},
            "everything-paused",
            {"since": NOW},
        ),
    ],
)
def test_the_widest_hold_is_told_first(run, around, word, numbers):
    found = waits_for(Waiter(**{"state": "queued", "place": 4} | run), Surroundings(**IDLE | around))

    assert (found.word, dict(found.numbers), found.place) == (word, numbers, 4)


def test_a_disk_that_is_nearly_full_is_told_of_only_where_it_stopped_a_run():
    gates = {**parts("image", "models", "provider", "folder"), "disk": "0.5 of 9.0 GiB are free"}

    lines = gate_lines({"gates": gates, "answer": answer("deferred", cause="disk-low")})

    assert [line.gate for line in lines if line.verdict is Verdict.STOPPED] == ["disk"]
    (stopped,) = [line for line in lines if line.gate == "disk"]
    assert (stopped.saw, stopped.why) == ("0.5 of 9.0 GiB are free", "disk-low")
    assert lines[lines.index(stopped) - 1].gate == "folder"
    assert all(line.verdict is Verdict.NOT_REACHED for line in lines[lines.index(stopped) + 1 :])
    assert "disk" not in [line.gate for line in gate_lines(INSIDE | {"answer": answer("admitted")})]
