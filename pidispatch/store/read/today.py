"""Count what today's runs came to."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text

from pidispatch.store.database import Database

TODAY = "date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"

ENDED = text(f"""
SELECT outcome, coalesce(reason, '') AS reason, count(*) AS runs FROM runs WHERE ended_at >= {TODAY}
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2
""")  # noqa: S608 - fixed words
TOKENS = text(f"""
SELECT coalesce(sum(tokens_in), 0)::bigint AS input, coalesce(sum(tokens_out), 0)::bigint AS output,
       coalesce(sum(tokens_cache_read), 0)::bigint AS cache_read,
       coalesce(sum(tokens_cache_write), 0)::bigint AS cache_write
FROM runs WHERE ended_at >= {TODAY}
""")  # noqa: S608
OLDEST = text("""
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(queued_at)), 0)::float8 FROM runs WHERE state = 'queued'
""")


@dataclass(frozen=True, slots=True)
class Today:
    """Runs that ended since midnight UTC by outcome and reason, their tokens by kind; the oldest one still queued."""

    ended: Mapping[tuple[str, str], int]
    tokens: Mapping[str, int]
    oldest_queued_seconds: float


def measure_today(database: Database) -> Today:
    """Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        return Today(
            ended={(row.outcome, row.reason): row.runs for row in connection.execute(ENDED)},
            tokens=dict(connection.execute(TOKENS).mappings().one()),
            oldest_queued_seconds=connection.execute(OLDEST).scalar_one(),
        )
