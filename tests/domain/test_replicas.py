"""Replicas: what differs between them, and what does not."""

from dataclasses import replace

import pytest

from pidispatch.domain.ask import Ask
from pidispatch.domain.replicas import replica_subject, replicas_of
from pidispatch.domain.run import NewRun

RUN = NewRun(
    public_id="github-7f3a",
    folder=b"",
    folder_given=b"",
    task=b"Mend it",
    task_bytes=7,
    event=b"{}",
    scope="acme/web",
    target="acme/web#7",
    pinned_host="h1",
    trigger_type="label",
    trigger_id="t",
    ask=Ask(priority=3),
    subject="acme/web#7:tidy",
)


@pytest.mark.parametrize("n", [2, 3])
def test_replicas_differ_in_id_number_and_subject_alone(n):
    made = replicas_of(RUN, n)

    assert [run.public_id for run in made] == [f"github-7f3a-r{i}" for i in range(1, n + 1)]
    assert [(run.replica, run.replicas) for run in made] == [(i, n) for i in range(1, n + 1)]
    assert [run.subject for run in made] == [f"acme/web#7:tidy:r{i}" for i in range(1, n + 1)]
    same = {"public_id": RUN.public_id, "subject": RUN.subject, "replica": None, "replicas": None}
    assert {replace(run, **same) for run in made} == {RUN}


def test_a_run_without_a_subject_gets_none():
    assert [run.subject for run in replicas_of(replace(RUN, subject=None), 2)] == [None, None]


@pytest.mark.parametrize("n", [None, 1])
def test_one_run_is_no_replica(n):
    assert replicas_of(RUN, n) == (RUN,)


@pytest.mark.parametrize("n", [-1, 0, 4, 100])
def test_other_numbers_make_no_runs(n):
    with pytest.raises(ValueError, match="2 or 3"):
        replicas_of(RUN, n)


def test_each_replica_is_a_subject_of_its_own():
    assert replica_subject("acme/web#7:tidy", None) == "acme/web#7:tidy"
    assert [replica_subject("acme/web#7:tidy", i) for i in (1, 2)] == [
        "acme/web#7:tidy:r1",
        "acme/web#7:tidy:r2",
    ]
