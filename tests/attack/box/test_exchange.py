"""The box gets the folder that was checked, or it gets nothing: whoever owns the folder may exchange it at any moment."""

import os
import subprocess
from pathlib import Path

import pytest

from pidispatch.domain.reconcile import Departure
from pidispatch.domain.sandbox import LABEL_RUN, WORKSPACE_DIR
from tests.attack.box.swapping import again_and_again, exchange, when_opened
from tests.store.builders import a_run, row
from tests.support.scale import scaled

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("attack-box")]
ROUNDS = scaled(4, nightly=40)


def identity(path):
    facts = Path(path).stat()
    return facts.st_dev, facts.st_ino


def live_workspaces(site, engine):
    """What the boxes of this installation have at /workspace now."""
    found = []
    for box in site.boxes.ours(site.installation):
        pid = engine.api.inspect_container(box.container_id)["State"]["Pid"]
        if pid:
            found.append(identity(f"/proc/{pid}/root{WORKSPACE_DIR}"))
    return found


def ended(site, run_id):
    return row(site.database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)


def launched(site, folder):
    run_id = a_run(site.database, folder=str(folder))
    claim = site.gate.admit()
    assert claim is not None
    site.launcher.start(claim)
    return run_id


def right_or_refused(site, engine, run_id, right):
    """Only two ends are allowed: a box with the right folder, or none and a run that says why."""
    if site.container(run_id) is not None:
        assert live_workspaces(site, engine) == [right]
        return "right"
    assert live_workspaces(site, engine) == []
    said = ended(site, run_id)
    assert (said["state"], said["outcome"], said["reason"]) == ("ended", "policy", "workspace-gone")
    return "refused"


def test_an_exchange_timed_by_the_workers_own_look_reaches_nothing(site, engine, ground):
    right = identity(ground.repo)

    with when_opened(ground.repo / ".git" / "HEAD", lambda: exchange(ground.repo, ground.link)) as done:
        run_id = launched(site, ground.repo)

        assert done.wait(20)
    became = right_or_refused(site, engine, run_id, right)
    assert became == ("right" if site.mounts._may_bind else "refused")


@pytest.mark.parametrize("target", ["a home", "the files of another run", "the door of another run"])
def test_a_folder_that_became_a_link_after_its_admission_is_refused(site, engine, ground, target):
    other = {
        "a home": ground.victim,
        "the files of another run": site.files._root / "pi-job-0badcafe-1-1",
        "the door of another run": site.doors.root / "7",
    }[target]
    other.mkdir(parents=True, exist_ok=True)
    os.chown(other, 12345, 12345)  # even where its owner is the same
    run_id = a_run(site.database, folder=str(ground.repo))
    claim = site.gate.admit()
    ground.link.unlink()
    ground.link.symlink_to(other)

    exchange(ground.repo, ground.link)
    site.launcher.start(claim)

    assert live_workspaces(site, engine) == []
    assert ended(site, run_id)["reason"] == "workspace-gone"
    assert [name for name in site.files.leftovers() if site.installation in name] == []


@pytest.mark.parametrize("moment", ["open", "create", "start"])
def test_an_exchange_at_any_step_of_the_start_reaches_nothing(site, engine, ground, moment):
    right = identity(ground.repo)
    place = site.doors if moment == "open" else site.boxes
    act = getattr(place, moment)

    def exchanged(*arguments):
        exchange(ground.repo, ground.link)
        return act(*arguments)

    setattr(place, moment, exchanged)
    run_id = launched(site, ground.repo)

    became = right_or_refused(site, engine, run_id, right)
    assert became == ("right" if site.mounts._may_bind and moment != "open" else "refused")


def test_an_exchange_of_the_parent_directory_reaches_nothing(site, engine, ground):
    right = identity(ground.repo)
    fake = ground.mine.parent / "fake"
    fake.mkdir()
    (fake / "repo").symlink_to(ground.victim)
    create = site.boxes.create

    def exchanged(spec):
        made = create(spec)
        exchange(ground.mine, fake)
        return made

    site.boxes.create = exchanged
    run_id = launched(site, ground.repo)

    right_or_refused(site, engine, run_id, right)


def test_what_is_mounted_over_the_folder_does_not_get_in(site, engine, ground):
    right = identity(ground.repo)
    create = site.boxes.create

    def covered(spec):
        made = create(spec)
        subprocess.run(["mount", "--bind", ground.victim, ground.repo], check=True)
        return made

    site.boxes.create = covered
    try:
        run_id = launched(site, ground.repo)

        right_or_refused(site, engine, run_id, right)
    finally:
        subprocess.run(["umount", ground.repo], check=True)


def test_hammered_exchanges_never_get_another_folder_in(site, engine, ground):
    right = identity(ground.repo)
    became = []
    for _ in range(ROUNDS):
        run_id = a_run(site.database, folder=str(ground.repo))
        claim = site.gate.admit()
        assert claim is not None
        with again_and_again(ground.repo, ground.link):
            site.launcher.start(claim)
        if site.container(run_id) is not None:
            became.append(right_or_refused(site, engine, run_id, right))
            site.finisher.take_back(site.runs.occupant(run_id), Departure.UNKNOWN)
            with site.database.transaction() as connection:
                connection.exec_driver_sql(
                    "UPDATE runs SET not_before = now() + interval '1 day' WHERE ended_at IS NULL"
                )
        else:
            assert live_workspaces(site, engine) == []
            assert ended(site, run_id)["reason"] in {
                "workspace-gone",
                "job-user-unmappable",
                "local-folder-missing",
            }
            became.append("refused")
    assert len(became) == ROUNDS


@pytest.mark.parametrize("which", ["outbox", "session", "job", "agent/models.json"])
def test_other_mounts_are_compared_too(site, engine, ground, tmp_path, which):
    create = site.boxes.create

    def exchanged(spec):
        (job,) = [mount.source for mount in spec.mounts if mount.target == "/job"]
        base = site.files._root / job.split("/")[-2]
        path = base / "job" / which if "/" in which else base / which
        other = tmp_path / "other"
        if path.is_file():
            other.write_bytes(b"{}")
        else:
            (other / "agent").mkdir(parents=True)
            for name in ("models.json", "settings.json"):
                (other / "agent" / name).touch()
        made = create(spec)
        exchange(path, other)
        return made

    site.boxes.create = exchanged
    run_id = launched(site, ground.repo)

    said = ended(site, run_id)
    assert (said["outcome"], said["reason"], said["why"]) == (
        "failed",
        "container-never-started",
        "mount-differs",
    )
    assert list(site.boxes.ours(site.installation)) == []


def test_an_exchange_of_the_parent_of_all_files_is_seen(site, ground, tmp_path):
    create = site.boxes.create

    def exchanged(spec):
        made = create(spec)
        root = site.files._root
        (name,) = site.files.leftovers()
        for part in ("job/agent", "outbox", "session"):
            (tmp_path / "fake" / name / part).mkdir(parents=True)
        for part in ("models.json", "settings.json"):
            (tmp_path / "fake" / name / "job/agent" / part).touch()
        exchange(root, tmp_path / "fake")
        return made

    site.boxes.create = exchanged
    run_id = launched(site, ground.repo)

    assert ended(site, run_id)["why"] == "mount-differs"


def test_a_box_whose_mounts_nobody_can_see_does_not_go(site, engine, ground, monkeypatch):
    monkeypatch.setattr("pidispatch.runtime.mounts.PROCESSES", "/proc/1/no-such-place")

    run_id = launched(site, ground.repo)

    assert ended(site, run_id)["why"] == "mount-unseen"
    assert list(site.boxes.ours(site.installation)) == []


def test_a_box_is_let_go_by_nobody_before_its_mounts_were_compared(site, ground):
    check = site.mounts.check
    asked = []

    def checked(container_id, mounts):
        (box,) = site.boxes.ours(site.installation)
        run_id = int(box.labels[LABEL_RUN])
        asked.append(
            (box.status, site.tickets.give_go(run_id, 1, container_id), site.tickets.is_preparing(run_id, 1))
        )
        check(container_id, mounts)

    site.mounts.check = checked
    run_id = launched(site, ground.repo)

    assert asked == [("running", False, True)]
    assert site.tickets.give_go(run_id, 1, site.container(run_id))


def test_a_link_in_place_of_git_says_nothing_of_another_repository(site, ground):
    head = "c" * 40
    (ground.victim / "HEAD").write_text(head + "\n")
    (ground.mine / "other").symlink_to(ground.victim)
    act = site.boxes.create

    def exchanged(spec):
        made = act(spec)
        exchange(ground.repo / ".git", ground.mine / "other")
        return made

    site.boxes.create = exchanged
    run_id = launched(site, ground.repo)

    commit = row(site.database, "SELECT commit_before FROM run_attempts WHERE run_id = :id", id=run_id)
    assert commit["commit_before"] is None
