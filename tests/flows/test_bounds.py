"""What bounds a run is settled when it is admitted, written down, and given to its box; what cannot be kept is refused."""

from dataclasses import replace

import pytest

from pidispatch.domain.box.facts import ImageFacts
from pidispatch.domain.limits.policy import ScopeCaps
from pidispatch.errors import SkillsRefused
from tests.flows.site import IMAGE
from tests.store.builders import a_run, assert_ledger_is_exact, row, value

IN_FORCE = "SELECT cost_cap_micros, cost_cap_asked, allowed_models, models_asked FROM runs WHERE id = :id"


def in_force(site, run_id):
    return row(site.database, IN_FORCE, id=run_id)


def an_end(site, run_id):
    ended = row(site.database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)
    assert (ended["state"], ended["outcome"]) == ("ended", "policy")
    return ended["reason"], ended["why"]


def an_image(site, capabilities):
    labels = {"dev.pi-dispatch.capabilities": capabilities}
    site.images.facts_by_tag = {IMAGE: ImageFacts("sha256:1", labels, "amd64", runs_here=True)}


@pytest.mark.parametrize(
    ("deployment", "asked", "amount"),
    [(5_000_000, None, 5_000_000), (5_000_000, 2_000_000, 2_000_000), (1_000_000, 2_000_000, 1_000_000)],
)
def test_the_smaller_cap_is_in_force_and_reserved_in_every_dollar_window(site, deployment, asked, amount):
    scope = {"folder:/repos/x": ScopeCaps(week_micros=9_000_000)}
    site.policy = replace(site.policy, max_cost_micros=deployment, daily_micros=9_000_000, by_scope=scope)
    run_id = a_run(site.database, folder="/repos/x", cost_cap_micros=asked)

    site.gate.admit()

    assert in_force(site, run_id)["cost_cap_micros"] == amount
    assert in_force(site, run_id)["cost_cap_asked"] == asked
    held = "SELECT array_agg(v.held) FROM reservations v JOIN spend_windows w ON w.id = v.window_id WHERE w.unit = 'micros'"
    assert value(site.database, held) == [amount, amount]
    assert_ledger_is_exact(site.database)


def test_a_cap_that_a_run_brings_along_is_enough_for_a_dollar_window(site):
    site.policy = replace(site.policy, daily_micros=9_000_000)
    bare, capped = a_run(site.database), a_run(site.database, cost_cap_micros=1_000_000)

    claim = site.gate.admit()

    assert claim.run_id == capped
    assert an_end(site, bare) == ("config-refused", "dollar-window-without-run-cap")


def test_a_window_without_room_for_the_runs_own_cap_refuses_it(site):
    site.policy = replace(site.policy, daily_micros=1_000_000)
    run_id = a_run(site.database, cost_cap_micros=1_000_001)

    assert site.gate.admit() is None

    assert an_end(site, run_id) == ("dollar-cap", "day-cap")


@pytest.mark.parametrize(
    ("deployment", "asked", "written"),
    [
        (None, None, None),
        (("scripted/happy", "a/b"), None, ["scripted/happy", "a/b"]),
        (None, ("scripted/happy",), ["scripted/happy"]),
        (("a/b",), ("scripted/happy",), ["scripted/happy"]),
    ],
)
def test_the_models_in_force_are_written_by_the_admission(site, deployment, asked, written):
    site.policy = replace(site.policy, allowed_models=deployment)
    run_id = a_run(site.database, allowed_models=asked)

    assert site.gate.admit() is not None

    assert in_force(site, run_id)["allowed_models"] == written
    assert in_force(site, run_id)["models_asked"] == (None if asked is None else list(asked))


@pytest.mark.parametrize(
    ("deployment", "asked"),
    [(("a/b",), None), (None, ("a/b",)), (("scripted/happy",), ("a/b",)), (None, ("Scripted/happy",))],
)
def test_a_run_whose_own_model_is_not_on_the_list_in_force_is_refused_for_nothing(site, deployment, asked):
    site.policy = replace(site.policy, allowed_models=deployment)
    run_id = a_run(site.database, allowed_models=asked)

    assert site.gate.admit() is None

    assert an_end(site, run_id) == ("model-not-allowed", None)
    assert value(site.database, "SELECT count(*) FROM reservations") == 0
    assert value(site.database, "SELECT admission->'gates'->'models'->'models' FROM runs") == list(
        asked or deployment
    )


def test_a_further_attempt_has_what_was_in_force_for_the_first_and_never_more(site):
    site.policy = replace(site.policy, max_cost_micros=2_000_000, allowed_models=("scripted/happy",))
    run_id = a_run(site.database, cost_cap_micros=3_000_000)
    claim, container = site.started()
    site.boxes.finish(container, 97)  # it never got its go
    site.finisher.finish(run_id)
    with site.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET not_before = NULL, looked_at = NULL")
    site.policy = replace(site.policy, max_cost_micros=9_000_000, allowed_models=None)

    assert site.gate.admit().attempt == claim.attempt + 1

    assert in_force(site, run_id)["cost_cap_micros"] == 2_000_000
    assert in_force(site, run_id)["allowed_models"] == ["scripted/happy"]


@pytest.mark.parametrize(
    ("asked", "capabilities", "reason"),
    [
        ({"excluded_tools": ("bash",)}, "report", "job-image-exclude-tools-unsupported"),
        ({"excluded_tools": ("bash",)}, "report,excludeTools", None),
        ({"command": "report weekly"}, "report,excludeTools", "job-image-commands-unsupported"),
        ({"command": "report weekly"}, "commands", None),
        ({"cost_cap_micros": 1, "allowed_models": ("scripted/happy",)}, "", None),  # kept by the gateway
    ],
)
def test_an_image_must_declare_what_a_run_needs_of_it(site, asked, capabilities, reason):
    an_image(site, capabilities)
    run_id = a_run(site.database, **asked)

    claim = site.gate.admit()

    assert (claim is None) is (reason is not None)
    if reason is not None:
        assert an_end(site, run_id) == (reason, None)
        assert value(site.database, "SELECT count(*) FROM reservations") == 0


def test_skills_that_are_not_there_refuse_the_run_before_anything_is_reserved(site):
    run_id = a_run(site.database, skills_dir=b"/srv/skills")

    assert site.gate.admit() is None

    assert an_end(site, run_id) == ("skills-dir-missing", None)
    assert value(site.database, "SELECT count(*) FROM reservations") == 0


def test_skills_are_laid_out_for_the_box(site):
    site.skills.given[b"/srv/skills"] = {"tidy/SKILL.md": b"tidy"}
    a_run(site.database, skills_dir=b"/srv/skills")

    site.started()

    (files,) = site.files.kept.values()
    assert files["skills/tidy/SKILL.md"] == b"tidy"


def test_skills_that_cannot_be_given_end_the_run_and_give_everything_back(site):
    site.skills.given[b"/srv/skills"] = SkillsRefused("too-large", "'/srv/skills/x' is too large")
    run_id = a_run(site.database, skills_dir=b"/srv/skills")

    site.launcher.start(site.gate.admit())

    assert an_end(site, run_id) == ("skills-dir-unusable", "too-large")
    assert value(site.database, "SELECT sum(used) FROM spend_windows") == 0
    assert_ledger_is_exact(site.database)
    assert site.nothing_is_left()


def environment(site, **asked):
    a_run(site.database, **asked)
    site.started()
    return site.boxes.made[-1].env


def test_the_box_is_told_its_bounds(site):
    an_image(site, "excludeTools,commands")
    bounds = {"excluded_tools": ("bash", "write"), "allowed_models": ("scripted/happy", "a/b")}

    told = environment(site, cost_cap_micros=500_000, command="report weekly", **bounds)

    assert {name: told.get(name) for name in NAMES} == {
        "PI_EXCLUDE_TOOLS": "bash,write",
        "PI_ALLOWED_MODELS": "scripted/happy,a/b",
        "PI_MAX_COST_MICROS": "500000",
        "PI_COMMAND": "report weekly",
    }


NAMES = ("PI_EXCLUDE_TOOLS", "PI_ALLOWED_MODELS", "PI_MAX_COST_MICROS", "PI_COMMAND")


def test_the_box_of_a_run_without_bounds_is_told_of_none(site):
    told = environment(site)

    assert not {*NAMES} & set(told)


@pytest.mark.parametrize(("depth", "told"), [(0, "1"), (1, None)])
def test_a_run_is_told_of_its_outbox_only_while_its_chain_may_go_on(site, depth, told):
    run_id = a_run(site.database)
    with site.database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET chain_depth = {depth} WHERE id = {run_id}")
    site.started()

    assert site.boxes.made[-1].env.get("PI_DISPATCH_CHAINS") == told
