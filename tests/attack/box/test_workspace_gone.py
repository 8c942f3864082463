"""A run whose folder was removed, replaced or given away meanwhile ends `workspace-gone`, and never as completed."""

import os
from dataclasses import replace

import pytest

from pidispatch.domain.runs.run import Workspace
from pidispatch.errors import FolderRefused, MountDiffers
from pidispatch.runtime.workspace import folder_change, open_folder
from pidispatch.store.runs.transitions import Runs
from tests.flows.site import Site
from tests.store.builders import HOST, a_run, assert_ledger_is_exact, row
from tests.support.boxes import SOMEBODY

FOLDER = "/repos/mine"


@pytest.fixture
def site(database):
    return Site(database)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "repo"
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    return path


@pytest.fixture
def workspace(folder):
    opened = open_folder(str(folder), worker_uid=os.geteuid())
    mutex = f"inode:h1:{opened.device}:{opened.inode}"
    return Workspace(1, "local-1", os.fsencode(folder), mutex, opened.uid)


def ended(site, run_id):
    return row(site.database, "SELECT state, outcome, reason, result FROM runs WHERE id = :id", id=run_id)


GONE = {"state": "ended", "outcome": "policy", "reason": "workspace-gone", "result": "none"}


def test_a_folder_that_stays_is_no_change(workspace):
    assert folder_change(workspace, host="h1") is None


@pytest.mark.parametrize("how", ["removed", "replaced", "by a link", "by a file"])
def test_a_folder_that_is_another_is_a_change(workspace, folder, tmp_path, how):
    folder.rename(tmp_path / "kept")  # so that its inode is not used again
    match how:
        case "replaced":
            folder.mkdir()
        case "by a link":
            (tmp_path / "else").mkdir()
            folder.symlink_to(tmp_path / "else")
        case "by a file":
            folder.touch()

    assert folder_change(workspace, host="h1") is not None


def test_a_folder_that_was_given_away_is_a_change(workspace, folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(folder, SOMEBODY + 1, SOMEBODY)

    assert folder_change(workspace, host="h1") == f"{str(folder)!r} was given to user {SOMEBODY + 1}"


def test_what_nobody_can_tell_is_not_taken_for_either(workspace, folder, monkeypatch):
    def fail(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.stat", fail)

    with pytest.raises(PermissionError):
        folder_change(workspace, host="h1")


def test_a_running_run_is_stopped_and_says_why(site):
    run_id = a_run(site.database, folder=FOLDER)
    claim, box = site.started()
    site.go(claim)
    site.changed_folders[FOLDER.encode()] = "it is gone"

    site.workspace_watch.look()
    site.look()
    site.look()
    site.hear_finishes()

    assert ended(site, run_id) == GONE
    assert site.boxes.inspect(box) is None
    assert_ledger_is_exact(site.database)


def test_a_folder_that_cannot_be_looked_at_stops_nothing_yet(site):
    run_id = a_run(site.database, folder=FOLDER)
    claim, _ = site.started()
    site.go(claim)
    site.changed_folders[FOLDER.encode()] = OSError(5, "Input/output error")

    site.workspace_watch.look()

    assert row(site.database, "SELECT stop_reason FROM runs WHERE id = :id", id=run_id) == {
        "stop_reason": None
    }


@pytest.mark.parametrize("found", ["it is gone", OSError(5, "Input/output error")])
def test_a_run_that_claims_success_in_another_folder_has_not_completed(site, found):
    run_id = a_run(site.database, folder=FOLDER)
    claim, box = site.started()
    site.go(claim)
    site.boxes.finish(box, 0)
    site.changed_folders[FOLDER.encode()] = found

    site.finisher.finish(run_id)

    assert ended(site, run_id) == GONE


def test_an_operators_cancel_keeps_its_word(site):
    run_id = a_run(site.database, folder=FOLDER)
    claim, _ = site.started()
    site.go(claim)
    site.changed_folders[FOLDER.encode()] = "it is gone"
    Runs(site.database).request_stop(run_id, reason="operator-cancel")

    site.look()
    site.look()
    site.hear_finishes()

    assert ended(site, run_id)["reason"] == "operator-cancel"


@pytest.mark.parametrize("change", ["exchanged", "given away"])
def test_a_folder_that_changed_since_its_admission_starts_nothing(site, change):
    run_id = a_run(site.database, folder=FOLDER)
    claim = site.gate.admit()
    seen = site.open_folder(FOLDER.encode())
    site.folders[FOLDER.encode()] = (
        replace(seen, inode=seen.inode + 1) if change == "exchanged" else replace(seen, uid=seen.uid + 1)
    )

    site.launcher.start(claim)

    assert ended(site, run_id) == GONE
    assert site.boxes.made == []
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize(
    ("fault", "outcome", "reason", "why"),
    [
        (FolderRefused("workspace-gone", "another"), "policy", "workspace-gone", None),
        (MountDiffers("another"), "failed", "container-never-started", "mount-differs"),
    ],
)
def test_a_box_with_another_mount_is_removed_and_never_named(site, fault, outcome, reason, why):
    run_id = a_run(site.database, folder=FOLDER)
    claim = site.gate.admit()
    site.mounts.different = fault

    site.launcher.start(claim)

    said = row(site.database, "SELECT outcome, reason, why FROM runs WHERE id = :id", id=run_id)
    assert said == {"outcome": outcome, "reason": reason, "why": why}
    assert site.container(run_id) is None
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_no_workspace_is_named_for_a_run_that_was_asked_to_stop(site):
    run_id = a_run(site.database, folder=FOLDER)
    claim, _ = site.started()
    site.go(claim)

    assert [found.run_id for found in site.runs.workspaces(HOST)] == [run_id]
    site.runs.request_stop(run_id, reason="deadline")
    assert site.runs.workspaces(HOST) == []
    assert site.runs.workspace(run_id).folder == FOLDER.encode()
