"""The policy in force, out of settings, overlay and files; the worker's view of an operator's edit."""

import json

import pytest

from pidispatch.app.policy import FilePolicies
from pidispatch.config import load
from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.limits.policy import Policy, Subject
from pidispatch.domain.limits.windows import Unit
from pidispatch.domain.runs.names import folder_scope
from pidispatch.errors import ConfigurationRefused


@pytest.fixture
def place(tmp_path):
    """A home with a settings file, and the three other files, written by name."""

    class Place:
        root = tmp_path

        def write(self, name, value):
            (tmp_path / name).write_text(value if isinstance(value, str) else json.dumps(value))

        def policies(self, **environ):
            return FilePolicies(load({"PIDISPATCH_HOME": str(tmp_path), **environ}, None))

        def path(self, name):
            return str(tmp_path / name)

    return Place()


def subject(folder, project=None):
    return Subject(scope=folder_scope(folder), name=folder, resolved=folder, project=project)


def test_without_files_the_environment_is_in_force(place):
    policy = place.policies(PI_DAILY_CAP="7", PI_CONCURRENCY="2").current()

    assert isinstance(policy, Policy)
    assert (policy.daily_cap, policy.concurrency, policy.max_turns) == (7, 2, 30)


def test_the_overlay_wins_over_the_environment_at_each_reading(place):
    policies = place.policies(PI_DAILY_CAP="7", PI_MODEL="env-model")
    place.write("settings.json", {"dailyCap": 3, "maxCostUsd": "2.5", "dailyCostUsd": 10})

    policy = policies.current()

    assert (policy.daily_cap, policy.model) == (3, "env-model")
    assert (policy.max_cost_micros, policy.daily_micros) == (2_500_000, 10_000_000)
    place.write("settings.json", {"dailyCap": 4})
    assert policies.current().daily_cap == 4


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"dailyCap": 0}',
        '{"dailyCap": 3, "dailyCap": 30}',
        '{"daily_cost_usd": 1}',
        "[]",
        '{"dailyCostUsd": 5}',
    ],
)
def test_an_overlay_that_is_not_right_lets_nothing_start(place, text):
    policies = place.policies()
    place.write("settings.json", text)

    assert policies.current() == Refused("settings-overlay-invalid", None)
    assert policies.problems()


def test_rows_are_found_by_the_scope_of_a_run(place):
    place.write("limits.json", {"version": 2, "limits": [
        {"scope": "/srv/web", "day": 3, "concurrent": 1}, {"scope": "project:shop", "week": 9, "dayUsd": "5"},
        {"scope": "model:anthropic/big", "monthUsd": "100"}]})  # fmt: skip
    place.write(
        "projects.json", {"version": 1, "projects": [{"id": "shop", "members": ["/srv/web", "/srv/api"]}]}
    )
    policies = place.policies(
        PI_SCOPED_LIMITS_FILE=place.path("limits.json"),
        PI_PROJECTS_FILE=place.path("projects.json"),
        PI_MAX_COST_USD="1",
    )
    policies.load()

    policy = policies.current()

    web = subject("/srv/web", policy.project_of(folder_scope("/srv/web")))
    caps = {(cap.scope, cap.unit): (cap.cap, cap.amount) for cap in policy.caps_for(web)}
    assert caps[folder_scope("/srv/web"), Unit.RUNS] == (3, 1)
    assert caps["project:shop", Unit.RUNS] == (9, 1)
    assert caps["project:shop", Unit.MICROS] == (5_000_000, 1_000_000)
    assert caps["model:anthropic/big", Unit.MICROS] == (100_000_000, 1_000_000)
    assert policy.concurrent_for(web) == {folder_scope("/srv/web"): 1}
    assert policy.names[folder_scope("/srv/web")] == "/srv/web"
    other = subject("/srv/else", policy.project_of(folder_scope("/srv/else")))
    assert {cap.scope for cap in policy.caps_for(other)} == {"*", "model:anthropic/big"}


def test_a_bad_edit_keeps_the_last_good_and_says_so(place):
    place.write("limits.json", {"version": 1, "limits": [{"scope": "/srv/web", "day": 3}]})
    policies = place.policies(PI_SCOPED_LIMITS_FILE=place.path("limits.json"))
    policies.load()
    place.write("limits.json", {"version": 1, "limits": [{"scope": "*", "day": 3}]})

    policy = policies.current()

    assert policy.by_scope[folder_scope("/srv/web")].day == 3
    (problem,) = policies.problems()
    assert "limits.json" in problem
    place.write("limits.json", {"version": 1, "limits": [{"scope": "/srv/web", "day": 8}]})
    assert policies.current().by_scope[folder_scope("/srv/web")].day == 8
    assert policies.problems() == ()


@pytest.mark.parametrize("name", ["PI_SCOPED_LIMITS_FILE", "PI_PROJECTS_FILE", "PI_PAUSE_WINDOWS_FILE"])
@pytest.mark.parametrize("content", [None, "not json"])
def test_a_bad_or_missing_file_at_the_start_refuses_to_start(place, name, content):
    if content is not None:
        place.write("file.json", content)

    with pytest.raises(ConfigurationRefused, match=r"file\.json"):
        place.policies(**{name: place.path("file.json")}).load()


def test_a_project_row_without_its_project_refuses_to_start(place):
    place.write("limits.json", {"version": 2, "limits": [{"scope": "project:none", "day": 3}]})

    with pytest.raises(ConfigurationRefused, match="project"):
        place.policies(PI_SCOPED_LIMITS_FILE=place.path("limits.json")).load()


def test_a_dollar_window_of_the_environment_needs_a_runs_own_cap(place):
    with pytest.raises(ConfigurationRefused, match="PI_DAILY_COST_USD is set and PI_MAX_COST_USD is not"):
        place.policies(PI_DAILY_COST_USD="5").load()


def test_a_pause_window_speaks_of_the_folder_as_written(place):
    from datetime import UTC, datetime

    place.write("pauses.json", {"windows": [{"scope": "/srv/web", "from": "09:00", "to": "17:00"}]})
    policies = place.policies(PI_PAUSE_WINDOWS_FILE=place.path("pauses.json"))
    policies.load()
    policy = policies.current()

    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    assert policy.paused_until(subject("/srv/web"), noon) == noon.replace(hour=17)
    assert policy.paused_until(subject("/srv/api"), noon) is None


def test_the_models_that_runs_may_call_come_from_the_environment_and_no_file_widens_them(place):
    assert place.policies().current().allowed_models is None
    place.write("settings.json", {"allowedModels": ["x/y"]})

    narrow = place.policies(PI_ALLOWED_MODELS="a/b,c/d", PI_SETTINGS_FILE=place.path("settings.json"))

    assert narrow.current().allowed_models == ("a/b", "c/d")
