"""What runs did outside of their boxes is added up, bounded, and goes with the run."""

from sqlalchemy import text

from pidispatch.domain.egress.allowlist import MOST_HOSTS, EgressUse
from pidispatch.store.read.detail import run_detail
from pidispatch.store.runs.egress import PostgresEgressUses
from tests.store.builders import a_host, a_run


def use(run, host="example.com", *, allowed=True, reason="listed", up=1, down=2, ago=5.0):
    return EgressUse(run, host, 443, allowed, reason, 1, up, down, ago, ago / 2)


def test_uses_of_one_host_are_added_up(database):
    a_host(database)
    run = a_run(database)
    uses = PostgresEgressUses(database)

    uses.add(run, [use(run)])
    uses.add(run, [use(run, up=10), use(run, "10.0.0.1", allowed=False, reason="private-address")])

    first, second = run_detail(database, run).egress
    assert (first.host, first.allowed, first.connections, first.bytes_up, first.bytes_down) == (
        "example.com",
        True,
        2,
        11,
        4,
    )
    assert first.first_at < first.last_at
    assert (second.host, second.allowed, second.reason) == ("10.0.0.1", False, "private-address")


def test_a_run_has_a_bounded_number_of_rows_of_each_kind(database):
    a_host(database)
    run = a_run(database)
    uses = PostgresEgressUses(database)

    for part in range(3):
        names = [f"h{part}-{number}.example" for number in range(MOST_HOSTS)]
        uses.add(run, [use(run, name, allowed=False, reason="not-listed") for name in names])
    uses.add(run, [use(run)])

    found = run_detail(database, run).egress
    assert len(found) == MOST_HOSTS + 2
    assert [each.host for each in found if each.allowed] == ["example.com"]
    other = found[-1]
    assert (other.host, other.port, other.reason, other.connections) == ("*", 0, "other", 2 * MOST_HOSTS)


def test_nothing_is_kept_of_a_run_that_is_gone(database):
    PostgresEgressUses(database).add(10**9, [use(10**9)])

    with database.transaction() as connection:
        assert connection.execute(text("SELECT count(*) FROM egress_uses")).scalar_one() == 0
