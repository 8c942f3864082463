"""The mark in the file and the row in the database: whatever dies between the two, a one-shot never fires twice."""

import json

import pytest

from pidispatch.domain.limits.admission import Admitted, Refused
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.domain.triggers.grammar.marking import without_disarmed
from pidispatch.domain.triggers.subject import RunSubject
from pidispatch.errors import CannotRearm, DatabaseUnavailable
from pidispatch.files import MarkedFile
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.oneshots import OneShots
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.triggers.arrivals import Arrivals
from pidispatch.upkeep.marking import Marking, Rearmed, mark_logged
from tests.store.arriving import an_arrival
from tests.store.builders import a_host, row, try_next, value

ENTRY = {
    "on": {"type": "issue", "action": ["closed"], "number": 7, "once": True},
    "run": {"kind": "github", "flow": "fix"},
}


class House:
    """A database, a host and its file of triggers."""

    def __init__(self, database, path):
        self.database, self.path = database, path
        self.one_shots = OneShots(database)
        self.file = MarkedFile(path, host="h1")
        self.marking = Marking(self.one_shots, self.file)
        self.write(ENTRY)

    def write(self, *entries):
        self.path.write_text(json.dumps({"triggers": entries}))

    def entries(self):
        return json.loads(self.path.read_text())["triggers"]

    def mark(self, index=0):
        return self.entries()[index]["on"].get("disarmed")

    def delete_mark(self):
        self.path.write_bytes(without_disarmed(self.path.read_bytes(), "triggers.json", 0))

    def key(self, index=0):
        return self.file.current().entries[index].identity

    def closes(self, key=None):
        """The item is closed: what an admission says of the run, and its claim."""
        number = value(self.database, "SELECT count(*) FROM runs") + 1
        arrival = an_arrival(
            subject=RunSubject("github:acme/web", f"#{number}", "fix"), one_shot=key or self.key()
        )
        Arrivals(self.database).arrive(arrival)
        answer = try_next(self.database)[1]
        return answer.claim if isinstance(answer, Admitted) else answer

    def goes(self):
        runs = Runs(self.database)
        claim = runs.preparing(self.closes()).claim
        container = f"{claim.run_id:064x}"
        runs.boxed(claim, container_id=container, name=f"box-{claim.run_id}")
        assert PostgresTickets(self.database, timeout=60).give_go(claim.run_id, 1, container)
        return runs.finishing(runs.facts(claim.run_id).claim)

    def runs(self):
        """The one-shot fires, and its run ends."""
        claim = self.goes()
        self.ends(claim)
        return claim

    def ends(self, claim):
        done = End(Outcome.COMPLETED, "completed")
        assert Endings(self.database).end(claim, done, BoxEnd(exit_code=0))

    def fires(self):
        """Whether a close would start a run now; leaves no trace of the try."""
        spent = value(self.database, "SELECT count(*) FROM one_shots WHERE key = :key", key=self.key())
        return spent == 0 and self.mark() is None


@pytest.fixture
def house(database, tmp_path):
    a_host(database, capacity=10)
    return House(database, tmp_path / "triggers.json")


def test_the_mark_is_written_when_the_run_has_ended_and_names_it(house):
    claim = house.goes()
    house.marking.look()
    assert house.mark() is None

    house.ends(claim)
    house.marking.look()

    ended = value(house.database, "SELECT ended_at FROM runs")
    at = ended.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert house.mark() == {"at": at, "jobId": claim.public_id}
    assert row(house.database, "SELECT marked_in, marked_at IS NOT NULL AS noted FROM one_shots") == {
        "marked_in": house.file.place,
        "noted": True,
    }
    house.marking.look()
    assert not house.fires()


def test_a_run_that_never_started_leaves_no_mark(house):
    runs = Runs(house.database)
    claim = runs.finishing(house.closes())
    assert Endings(house.database).end(claim, End(Outcome.FAILED, "container-never-started"), BoxEnd())

    house.marking.look()

    assert house.mark() is None
    assert house.fires()


def test_until_the_mark_is_written_the_row_refuses(house):
    house.runs()

    assert house.closes() == Refused("once-already-spent", "by-another-run")


def test_a_death_between_the_mark_and_its_note_is_made_good_by_the_next_look(house, monkeypatch):
    claim = house.runs()

    def killed(*_args):
        raise DatabaseUnavailable("killed")

    with monkeypatch.context() as dying:
        dying.setattr(house.one_shots, "marked", killed)
        with pytest.raises(DatabaseUnavailable):
            house.marking.look()
    assert house.mark()["jobId"] == claim.public_id
    assert value(house.database, "SELECT marked_at FROM one_shots") is None

    house.marking.look()

    assert value(house.database, "SELECT marked_in FROM one_shots") == house.file.place
    house.delete_mark()
    house.marking.look()
    assert house.fires()


def test_a_file_that_cannot_be_written_or_read_now_is_marked_later(house):
    house.runs()
    good = house.path.read_bytes()
    house.path.write_bytes(b'{"triggers": [')
    house.marking.look()
    house.path.unlink()
    house.marking.look()
    house.path.write_bytes(good)
    house.path.with_name("triggers.json.lock").mkdir()
    mark_logged(house.marking)
    house.path.with_name("triggers.json.lock").rmdir()
    assert house.mark() is None

    house.marking.look()

    assert house.mark() is not None


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr("pidispatch.files.lockfile.PAUSE", (0.0, 0.002))


def test_deleting_our_mark_arms_it_and_the_next_close_runs(house):
    first = house.runs()
    house.marking.look()
    house.delete_mark()
    house.marking.look()

    second = house.runs()
    house.marking.look()

    assert house.mark()["jobId"] == second.public_id
    assert row(house.database, "SELECT subject, actor, detail FROM audit_log") == {
        "subject": house.key(),
        "actor": f"file@{house.file.place}",
        "detail": {"run": first.public_id, "how": "mark-deleted"},
    }


def test_an_arming_that_dies_is_done_by_the_next_look(house, monkeypatch):
    house.runs()
    house.marking.look()
    house.delete_mark()

    def killed(*_args):
        raise DatabaseUnavailable("killed")

    with monkeypatch.context() as dying:
        dying.setattr("pidispatch.store.runs.oneshots.audit", killed)
        mark_logged(house.marking)
    assert value(house.database, "SELECT count(*) FROM one_shots") == 1
    assert value(house.database, "SELECT count(*) FROM rearmed_one_shots") == 0

    house.marking.look()
    assert house.fires()


def test_a_file_of_another_host_without_the_mark_arms_nothing(house, tmp_path):
    house.runs()
    house.marking.look()
    (tmp_path / "other").mkdir()
    other = House(house.database, tmp_path / "other" / "triggers.json")
    elsewhere = MarkedFile(house.path, host="h2")

    other.marking.look()
    house.write(ENTRY)
    Marking(house.one_shots, elsewhere).look()

    assert value(house.database, "SELECT count(*) FROM one_shots") == 1


def test_an_entry_that_is_taken_out_stays_spent_until_it_comes_back_without_its_mark(house):
    house.runs()
    house.marking.look()
    house.write()
    house.marking.look()
    assert value(house.database, "SELECT count(*) FROM one_shots") == 1

    house.write(ENTRY)
    house.marking.look()

    assert house.fires()


def test_entries_that_are_inserted_moved_or_reordered_keep_their_own_mark(house):
    other = {**ENTRY, "on": {**ENTRY["on"], "number": 8}}
    named = {**ENTRY, "id": "by-name"}
    house.write(ENTRY)
    key = house.key()
    claim = house.runs()

    house.write(other, named, ENTRY)
    house.marking.look()

    assert [house.mark(index) for index in range(2)] == [None, None]
    assert house.mark(2)["jobId"] == claim.public_id
    marked = house.entries()[2]
    for order in ([marked, other, named], [other, marked], [named, marked, other]):
        house.write(*order)
        house.marking.look()
        assert [entry["on"].get("disarmed") for entry in house.entries() if entry != marked] == [None] * (
            len(order) - 1
        )
    assert value(house.database, "SELECT key FROM one_shots") == key
    for entry in (other, named):
        house.write(entry)
        assert not isinstance(house.closes(), Refused)


def test_an_entry_that_changed_in_between_is_never_marked(house):
    house.runs()
    for changed in (
        {**ENTRY, "on": {**ENTRY["on"], "number": 9}},
        {**ENTRY, "run": {"kind": "github", "flow": "other"}},
        {**ENTRY, "on": {**ENTRY["on"], "once": False}},
    ):
        house.write(changed)
        house.marking.look()
        assert house.mark() is None


def test_a_mark_by_hand_is_noted_as_one_and_deleting_it_arms(house):
    house.runs()
    house.write({**ENTRY, "on": {**ENTRY["on"], "disarmed": {"at": "yesterday"}}})
    house.marking.look()
    assert house.mark() == {"at": "yesterday"}

    house.delete_mark()
    house.marking.look()

    assert house.fires()


def test_two_entries_that_say_the_same_are_one_one_shot(house):
    house.write(ENTRY, ENTRY)
    house.runs()
    for _ in range(2):
        house.marking.look()

    assert house.mark(0) is not None
    assert house.mark(1) is None
    assert house.closes() == Refused("once-already-spent", "by-another-run")


def test_what_else_the_file_says_survives_the_mark_and_so_does_a_link(house, tmp_path):
    real = tmp_path / "real.json"
    text = '{\n  "note": "kept",\n  "triggers": [ENTRY]\n}\n'.replace(
        "ENTRY", json.dumps({**ENTRY, "x-own": [1]})
    )
    real.write_text(text)
    house.path.unlink()
    house.path.symlink_to("real.json")
    house.runs()

    house.marking.look()

    assert house.path.is_symlink()
    assert house.mark() is not None
    house.delete_mark()
    assert real.read_text() == text


def test_two_processes_of_a_host_that_mark_at_once_make_one_mark(house):
    house.runs()
    other = Marking(house.one_shots, MarkedFile(house.path, host="h1"))
    real = house.one_shots.to_mark()

    house.marking.look()
    other._mark(real[0])

    assert house.mark() is not None
    assert value(house.database, "SELECT count(*) FROM one_shots WHERE marked_at IS NOT NULL") == 1


def test_an_operator_who_arms_it_between_the_look_and_the_mark_wins(house):
    house.runs()
    (seen,) = house.one_shots.to_mark()
    house.one_shots.rearm(seen.key, "ada@h1")

    house.marking._mark(seen)

    assert house.fires()


def test_an_operator_arms_row_and_file(house):
    claim = house.runs()
    house.marking.look()

    assert house.marking.rearm(house.key(), "ada@h1") == Rearmed(claim.public_id, unmarked=True)

    assert house.fires()
    with pytest.raises(CannotRearm, match="is not spent"):
        house.marking.rearm(house.key(), "ada@h1")


def test_an_arming_that_died_after_the_row_is_finished_by_the_same_word(house):
    house.runs()
    house.marking.look()
    house.one_shots.rearm(house.key(), "ada@h1")
    house.marking.look()
    assert house.mark() is not None  # the safe direction: armed nowhere until it is said again

    assert house.marking.rearm(house.key(), "ada@h1") == Rearmed(None, unmarked=True)
    assert house.fires()


def test_what_a_run_is_spending_is_not_armed(house):
    claim = house.goes()
    house.write({**ENTRY, "on": {**ENTRY["on"], "disarmed": {"at": "x"}}})

    with pytest.raises(CannotRearm, match=f"spent by {claim.public_id}, which has not ended"):
        house.marking.rearm(house.key(), "ada@h1")

    assert house.mark() == {"at": "x"}
