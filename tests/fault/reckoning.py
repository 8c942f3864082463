"""Say after a storm of kills what was lost, what was doubled and what was left, and how long recovery took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from tests.fault.blows import Kill, Outage
from tests.fault.house import House
from tests.fault.witness import contradictions, ledger_problems, left_behind
from tests.storm import ledgerlog

# The log of terminal records is the database's own: a record is written once, and not touched afterwards.
RECORDS = """
CREATE TABLE record_log (run_id bigint);
CREATE FUNCTION log_record() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO record_log VALUES (NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER log_record AFTER UPDATE ON runs FOR EACH ROW
  WHEN (NEW.state = 'ended' AND (OLD.state <> 'ended' OR OLD.epoch <> NEW.epoch)) EXECUTE FUNCTION log_record();
"""
ENGINES = frozenset({"dockerd", "dockerd-live"})
ROUND_THE_BOX = ENGINES | {"gateway", "postgres"}
# Which kills, and how many of them, explain an ending that is not `completed`: one during the last attempt, or several
# during the run. Lost: the go was spent and its answer lost, or the box is gone. Infra: no model's answer came through.
EXPLAINED: Mapping[str, tuple[frozenset[str], int]] = {
    "killed": (ENGINES, 1),
    "unknown-exit-code": (ENGINES, 1),
    "unknown": (ENGINES, 1),
    "lost": (ROUND_THE_BOX, 1),
    "infra": (frozenset({"gateway", "postgres"}), 1),
    "report-unverified": (frozenset({"gateway", "postgres"}), 1),
    "poisoned": (frozenset({"worker", "master"}), 3),
    "container-never-started": (ROUND_THE_BOX, 4),
}
ATTEMPTS = """
SELECT run_id, attempt, extract(epoch FROM admitted_at)::float AS since, extract(epoch FROM ended_at)::float AS until
FROM run_attempts WHERE ended_at IS NOT NULL
"""
RUNS = """
SELECT r.id, r.public_id, r.state, r.outcome, r.reason, r.why, r.attempt,
       extract(epoch FROM min(a.admitted_at))::float AS first, extract(epoch FROM max(a.admitted_at))::float AS since,
       extract(epoch FROM r.ended_at)::float AS until,
       (SELECT count(*) FROM record_log l WHERE l.run_id = r.id) AS records
FROM runs r LEFT JOIN run_attempts a ON a.run_id = r.id GROUP BY r.id ORDER BY r.id
"""


@dataclass(frozen=True, slots=True)
class Reckoning:
    """Each list holds a line for each thing that is wrong; `told` lists the endings other than completed."""

    lost: Sequence[str]
    doubled: Sequence[str]
    leaked: Sequence[str]
    told: Sequence[str]
    recovery: float

    @property
    def passed(self) -> bool:
        return not (self.lost or self.doubled or self.leaked)


def install_logs(house: House) -> None:
    ledgerlog.install(house.database)
    with house.database.transaction() as connection:
        connection.execute(text(RECORDS))


def reckon(
    house: House, submitted: Sequence[int], kills: Sequence[Kill], outages: Sequence[Outage]
) -> Reckoning:
    """Ask everybody: the rows, the database's own logs, the engine's log, the provider, the disk."""
    lost, doubled, told = [], [], []
    runs = house.rows(RUNS)
    lost += [f"run {run_id} has no row" for run_id in set(submitted) - {run["id"] for run in runs}]
    for run in runs:
        name, word = run["public_id"], run["reason"] or run["outcome"]
        if run["state"] != "ended" or run["records"] == 0:
            lost.append(f"{name} is {run['state']}, with {run['records']} terminal records")
            continue
        if run["records"] > 1:
            doubled.append(f"{name} has {run['records']} terminal records")
        doubled += [f"{name}: {problem}" for problem in contradictions(house, run["id"])]
        if word != "completed":
            explained = causes(run, word, kills)
            told.append(
                f"{name} ended {word} ({run['why']}), attempt {run['attempt']}: {_shown(run, explained)}"
            )
            if not explained:
                lost.append(f"{name} ended {word}, which no kill explains")
    doubled += _ledger(house)
    leaked = left_behind(house) + house.engine.forgotten(begun=True)
    told += house.engine.forgotten(begun=False)
    return Reckoning(lost, doubled, leaked, told, slowest(house, kills, outages))


def _ledger(house: House) -> list[str]:
    found = list(ledger_problems(house))
    try:
        ledgerlog.replay(house.database)
    except AssertionError as error:
        found.append(f"the windows' log does not add up: {error}")
    return found


def causes(run: Mapping[str, Any], word: str, kills: Sequence[Kill]) -> list[Kill]:
    """The kills during the run that explain its ending; none when they are too few."""
    victims, least = EXPLAINED.get(word, (frozenset(), 1))
    span = run if least == 1 else {**run, "since": run["first"]}
    found = [kill for kill in kills if kill.victim in victims and _during(kill.at, span)]
    return found if len(found) >= least else []


def _during(at: float, span: Mapping[str, Any]) -> bool:
    return span["since"] is not None and span["since"] <= at <= span["until"]


def _shown(run: Mapping[str, Any], causes: Sequence[Kill]) -> str:
    if not causes:
        return "NOT EXPLAINED"
    return ", ".join(f"{kill.victim} killed {run['until'] - kill.at:.1f} s before" for kill in causes)


def slowest(house: House, kills: Sequence[Kill], outages: Sequence[Outage]) -> float:
    """The longest time (seconds) from the first kill that struck an attempt to its end: recovered or declared.

    It is counted from when Postgres and Docker answer; the attempt's own work is in it.
    """
    return max((recovery(attempt, kills, outages) for attempt in house.rows(ATTEMPTS)), default=0.0)


def recovery(attempt: Mapping[str, Any], kills: Sequence[Kill], outages: Sequence[Outage]) -> float:
    struck = [kill.at for kill in kills if _during(kill.at, attempt)]
    if not struck:
        return 0.0
    back = [outage.until for outage in outages if _during(outage.until, attempt)]
    return float(attempt["until"] - max(min(struck), *back, 0.0))
