"""Keep the last good content of the operator's files, for all processes of a host and after a restart."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, LargeBinary, Row, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.files.inforce import FileLook, InForce, KeptContent
from pidispatch.store.database import Database

# Whoever looks has the turn until it has kept what it saw, so the rows follow the order of the edits.
TURN = text("SELECT pg_advisory_xact_lock(hashtextextended('pidispatch operator files ' || :host, 0))")
NOW = text("SELECT clock_timestamp()")
FIND = text("""
SELECT contents, digest, in_force_since, problems, bad_since FROM operator_files
WHERE host = :host AND name = :name AND place = :place
""")
KEEP = text("""
INSERT INTO operator_files (host, name, place, contents, digest, in_force_since, problems, bad_since)
VALUES (:host, :name, :place, :contents, :digest, :in_force_since, :problems, :bad_since)
ON CONFLICT (host, name, place) DO UPDATE SET contents = excluded.contents, digest = excluded.digest,
  in_force_since = excluded.in_force_since, problems = excluded.problems, bad_since = excluded.bad_since
""").bindparams(bindparam("contents", type_=ARRAY(LargeBinary)), bindparam("problems", type_=ARRAY(Text)))
READ_ALONE = text("""
UPDATE operator_files SET problems = '{}', bad_since = NULL
WHERE host = :host AND name = :name AND place IS DISTINCT FROM :place AND bad_since IS NOT NULL
""").bindparams(bindparam("place", type_=Text))
EVERYWHERE = text("""
SELECT host, name, place, NULL AS contents, digest, in_force_since, problems, bad_since FROM operator_files
WHERE bad_since IS NOT NULL ORDER BY host, name, place
""")

OF_HOST = text("""
SELECT host, name, place, NULL AS contents, digest, in_force_since, problems, bad_since FROM operator_files
WHERE host = :host ORDER BY name, place
""")

HoldsSecret = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class FileOfHost:
    """What is known of one file of a host; its contents are left out."""

    host: str
    name: str
    place: str
    found: InForce


def no_secret(_content: bytes) -> bool:
    return False


class PostgresKeptFiles:
    """Implements `ports.KeptFiles`. A content that `holds_secret` says yes to is known by its digest alone."""

    tells = True

    def __init__(self, database: Database, *, host: str, holds_secret: HoldsSecret = no_secret) -> None:
        self._database = database
        self._host = host
        self._holds_secret = holds_secret

    def agree(self, name: str, place: str, look: Callable[[KeptContent | None], FileLook]) -> InForce:
        asked = {"host": self._host, "name": name, "place": place}
        with self._database.transaction() as connection:
            connection.execute(TURN, {"host": self._host})
            before = _found(connection, asked)
            after = before.after(look(before.kept), connection.execute(NOW).scalar_one())
            if after.kept is None or after == before:
                return after
            if any(each and self._holds_secret(each) for each in after.kept.contents or ()):
                after = after.without_contents()
            connection.execute(KEEP, {**asked, **_values(after)})
        return after

    def read_alone(self, places: Mapping[str, str | None]) -> None:
        """Of other files that this host named before, nothing is wrong any more; None: it names none now."""
        with self._database.transaction() as connection:
            for name, place in places.items():
                connection.execute(READ_ALONE, {"host": self._host, "name": name, "place": place})


class KeptFilesToRead:
    """Implements `ports.KeptFiles` for who only asks, in passing: nothing is kept, and nothing logged."""

    tells = False

    def __init__(self, database: Database, *, host: str) -> None:
        self._database = database
        self._host = host

    def agree(self, name: str, place: str, look: Callable[[KeptContent | None], FileLook]) -> InForce:
        with self._database.transaction() as connection:
            before = _found(connection, {"host": self._host, "name": name, "place": place})
            now: datetime = connection.execute(NOW).scalar_one()
        return before.after(look(before.kept), now)


def bad_files(database: Database) -> Sequence[FileOfHost]:
    """What is not in force as it is, of all hosts."""
    return _files(database, EVERYWHERE, {})


def files_of(database: Database, host: str) -> Sequence[FileOfHost]:
    """What this host's processes have read."""
    return _files(database, OF_HOST, {"host": host})


def _files(database: Database, statement: TextClause, asked: Mapping[str, Any]) -> Sequence[FileOfHost]:
    with database.transaction() as connection:
        rows = connection.execute(statement, asked).all()
    return [FileOfHost(row.host, row.name, row.place, _of(row)) for row in rows]


def _found(connection: Connection, asked: Mapping[str, Any]) -> InForce:
    row = connection.execute(FIND, asked).one_or_none()
    return InForce() if row is None else _of(row)


def _of(row: Row[Any]) -> InForce:
    contents = None if row.contents is None else tuple(row.contents)
    return InForce(KeptContent(contents, row.digest, row.in_force_since), tuple(row.problems), row.bad_since)


def _values(found: InForce) -> dict[str, Any]:
    kept = found.kept
    assert kept is not None  # noqa: S101 - there is no row without
    return {
        "contents": None if kept.contents is None else list(kept.contents),
        "digest": kept.digest,
        "in_force_since": kept.since,
        "problems": [_as_text(problem) for problem in found.problems],
        "bad_since": found.since,
    }


def _as_text(problem: str) -> str:
    """What a column takes: a path may hold bytes that are no text."""
    return problem.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
