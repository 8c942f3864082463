"""Look for rows that contradict each other: what must be true of the database at every instant."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from pidispatch.domain.checkup import Finding, Grade
from pidispatch.store.costs import TURN
from pidispatch.store.database import Database
from pidispatch.store.startable import OCCUPYING_SQL

MOST_NAMED = 10
TELL = "keep the database as it is and report this: no command of pidispatch can cause it"


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement that selects one sentence for each row that breaks the rule; one statement sees one instant."""

    check: str
    rule: str
    broken: str
    way_out: str = TELL
    grade: Grade = Grade.FAILED


INVARIANTS = (
    Invariant(
        "windows",
        "every window holds the sum of its reservations",
        """
SELECT w.unit || ' of ' || w.scope || ', ' || w.period || ' from ' || w.starts_on || ': used is ' || w.used
       || ', its reservations are ' || coalesce(sum(v.counted), 0)
FROM spend_windows w LEFT JOIN reservations v ON v.window_id = w.id
GROUP BY w.id HAVING w.used <> coalesce(sum(v.counted), 0) ORDER BY w.id""",
    ),
    Invariant(
        "scopes",
        "every scope counts exactly the runs that hold its slots",
        f"""
WITH held AS (
  SELECT k.key, count(*) AS runs FROM runs r,
    LATERAL (SELECT DISTINCT key FROM unnest(ARRAY[r.scope, r.mutex, 'project:' || r.project]) AS u (key)
             WHERE key IS NOT NULL) k
  WHERE r.state IN ({OCCUPYING_SQL}) GROUP BY k.key)
SELECT coalesce(s.key, held.key) || ': occupied is ' || coalesce(s.occupied, 0) || ', its runs are '
       || coalesce(held.runs, 0)
FROM scopes s FULL JOIN held ON held.key = s.key
WHERE coalesce(s.occupied, 0) <> coalesce(held.runs, 0) ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "folders",
        "no folder has two runs at a time, nor has one that lies in it",
        f"""
WITH busy AS (SELECT mutex, mutex_within, public_id, id FROM runs
              WHERE mutex IS NOT NULL AND state IN ({OCCUPYING_SQL}))
SELECT mutex || ': ' || string_agg(public_id, ', ' ORDER BY id) FROM busy GROUP BY mutex HAVING count(*) > 1
UNION ALL
SELECT o.mutex || ': ' || o.public_id || ', ' || i.public_id FROM busy o JOIN busy i ON o.mutex = ANY(i.mutex_within)
ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "slots",
        "no scope and no host holds more runs than it may",
        f"""
SELECT s.key || ': ' || s.occupied || ' of ' || s."limit" FROM scopes s WHERE s.occupied > s."limit"
UNION ALL
SELECT 'host ' || h.name || ': ' || o.runs || ' of ' || h.capacity FROM hosts h
JOIN (SELECT host, count(*) AS runs FROM runs WHERE state IN ({OCCUPYING_SQL}) GROUP BY host) o ON o.host = h.name
WHERE o.runs > h.capacity ORDER BY 1""",  # noqa: S608 - fixed words
        way_out="a limit that was lowered while they ran holds again once they have ended; if none was, report this",
        grade=Grade.WARNING,
    ),
    Invariant(
        "ended runs",
        "a run that has ended holds no money, no open call and no slot",
        """
SELECT DISTINCT r.public_id || ' has ended and still holds a reservation' FROM reservations v JOIN runs r ON r.id = v.run_id
WHERE v.state = 'held' AND r.state = 'ended'
UNION ALL
SELECT DISTINCT r.public_id || ' has ended with a model call open' FROM provider_calls c JOIN runs r ON r.id = c.run_id
WHERE c.state = 'held' AND r.state = 'ended' ORDER BY 1""",
    ),
    Invariant(
        "reservations",
        "money is held by runs that hold a slot, or that may have spent and will be tried again",
        f"""
SELECT DISTINCT r.public_id || ' is ' || r.state || ', never got its go, and holds a reservation'
FROM reservations v JOIN runs r ON r.id = v.run_id
WHERE v.state = 'held' AND r.state IN ('queued', 'deferred', 'held')
  AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL)
UNION ALL
SELECT r.public_id || ' is ' || r.state || ' and holds no reservation' FROM runs r
WHERE r.state IN ({OCCUPYING_SQL})
  AND NOT EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "charges",
        "a run that never got its go is charged for nothing",
        """
SELECT DISTINCT r.public_id || ' never got its go and is charged' FROM reservations v JOIN runs r ON r.id = v.run_id
WHERE v.state = 'settled' AND v.settled > 0
  AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL) ORDER BY 1""",
    ),
    Invariant(
        "open calls",
        "a model call is open only while its attempt holds a slot",
        f"""
SELECT DISTINCT r.public_id || ' is ' || r.state || ' in attempt ' || r.attempt || ', and attempt ' || c.attempt
       || ' has a model call open'
FROM provider_calls c JOIN runs r ON r.id = c.run_id
WHERE c.state = 'held' AND r.state <> 'ended' AND (r.state NOT IN ({OCCUPYING_SQL}) OR r.attempt <> c.attempt)
ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "call sums",
        "every attempt counts exactly its calls",
        f"""
SELECT r.public_id || ', attempt ' || a.attempt || ': counts ' || a.used_micros || ' micro-dollars, ' || a.used_tokens
       || ' tokens and ' || a.used_turns || ' turns, its calls ' || coalesce(s.micros, 0) || ', ' || coalesce(s.tokens, 0)
       || ' and ' || coalesce(s.turns, 0)
FROM run_attempts a JOIN runs r ON r.id = a.run_id LEFT JOIN (
  SELECT run_id, attempt, coalesce(sum(counted_micros), 0) AS micros, sum(counted_tokens) AS tokens,
         count(*) FILTER (WHERE {TURN}) AS turns
  FROM provider_calls c WHERE state <> 'held' GROUP BY run_id, attempt) s ON s.run_id = a.run_id AND s.attempt = a.attempt
WHERE (a.used_micros, a.used_tokens, a.used_turns)
      <> (coalesce(s.micros, 0), coalesce(s.tokens, 0), coalesce(s.turns, 0)) ORDER BY a.run_id, a.attempt""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "costs",
        "a run that has ended cost what its calls cost then",
        """
SELECT r.public_id || ': cost is ' || r.cost_micros || ', its calls were ' || s.micros
FROM runs r JOIN LATERAL (
  SELECT coalesce(sum(c.cost_micros), 0) - coalesce(sum(a.micros_after), 0) + coalesce(sum(a.micros_before), 0) AS micros
  FROM provider_calls c LEFT JOIN spend_adjustments a ON a.call_id = c.id AND a.at > r.ended_at
  WHERE c.run_id = r.id) s ON true
WHERE r.state = 'ended' AND r.cost_micros IS NOT NULL AND r.cost_micros <> s.micros ORDER BY r.id""",
    ),
    Invariant(
        "late figures",
        "a call whose figure was put right has an end",
        """
SELECT r.public_id || ': call ' || c.id || ' was put right and is ' || c.state
FROM spend_adjustments a JOIN provider_calls c ON c.id = a.call_id JOIN runs r ON r.id = a.run_id
WHERE c.state = 'held' OR c.status IS NULL ORDER BY c.id""",
    ),
    Invariant(
        "run caps",
        "no run of the last seven days spent more than its cap",
        """
SELECT r.public_id || ': ' || s.micros || ' of ' || r.cost_cap_micros || ' micro-dollars' FROM runs r JOIN LATERAL (
  SELECT sum(c.counted_micros) AS micros FROM provider_calls c WHERE c.run_id = r.id) s ON true
WHERE s.micros > r.cost_cap_micros AND coalesce(r.ended_at, now()) > now() - interval '7 days' ORDER BY r.id""",
        way_out="a provider measured more than its call could come to: compare its prices with those in force",
        grade=Grade.WARNING,
    ),
    Invariant(
        "one-shots",
        "a one-shot is spent by a run that holds a slot, or that got its go",
        f"""
SELECT o.key || ': spent by ' || r.public_id || ', which is ' || r.state || ' and never got its go'
FROM one_shots o JOIN runs r ON r.id = o.run_id
WHERE r.state NOT IN ({OCCUPYING_SQL})
  AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL) ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "attempts",
        "a run that holds a slot has a row for its attempt",
        f"""
SELECT r.public_id || ' is ' || r.state || ' in attempt ' || r.attempt || ', which has no row' FROM runs r
WHERE r.state IN ({OCCUPYING_SQL})
  AND NOT EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.attempt = r.attempt) ORDER BY 1""",  # noqa: S608 - fixed words
    ),
    Invariant(
        "payloads",
        "the untrusted bytes of every ended run have a day on which they are deleted",
        """
SELECT r.public_id || ' has ended and its task is kept for ever' FROM run_payloads p JOIN runs r ON r.id = p.run_id
WHERE p.expires_at IS NULL AND r.state = 'ended' ORDER BY 1""",
    ),
    Invariant(
        "waits",
        "every held run is looked at again, and no other is",
        """
SELECT r.public_id || ' is held and nobody will look at it' FROM runs r
WHERE r.state = 'held' AND NOT EXISTS (
  SELECT 1 FROM run_waits w WHERE w.run_id = r.id AND w.next_check_at IS NOT NULL)
UNION ALL
SELECT r.public_id || ' is ' || r.state || ' and its wait goes on' FROM run_waits w JOIN runs r ON r.id = w.run_id
WHERE w.next_check_at IS NOT NULL AND r.state <> 'held' ORDER BY 1""",
    ),
)


def look_for_contradictions(database: Database) -> Iterator[Finding]:
    """A finding for each rule, in order. Raises DatabaseUnavailable."""
    for invariant in INVARIANTS:
        with database.transaction() as connection:
            broken = connection.execute(
                text(
                    f"SELECT what, count(*) OVER () FROM ({invariant.broken}) AS broken (what) LIMIT {MOST_NAMED}"  # noqa: S608
                )
            ).all()
        yield _finding(invariant, [row[0] for row in broken], broken[0][1] if broken else 0)


def _finding(invariant: Invariant, named: Sequence[str], total: int) -> Finding:
    if not named:
        return Finding(invariant.check, Grade.OK, invariant.rule)
    more = f"; and {total - len(named):,} more" if total > len(named) else ""
    return Finding(invariant.check, invariant.grade, "; ".join(named) + more, invariant.way_out)
