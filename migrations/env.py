"""Run migrations on the connection that pidispatch hands over, or on DATABASE_URL for plain `alembic`."""

import os
import sys

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection

from pidispatch.config.grammar import Unwanted
from pidispatch.config.urls import database_url
from pidispatch.errors import PidispatchError
from pidispatch.store.database import Database
from pidispatch.store.migrating import begin_changes, line_of
from pidispatch.store.tables import METADATA
from pidispatch.store.versions import TABLE


def run(connection: Connection, say) -> None:
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        compare_type=True,
        version_table=TABLE,
        on_version_apply=lambda *, step, **_: say(line_of(step)),
    )
    with context.begin_transaction():
        context.run_migrations()


def by_hand() -> None:
    """Every state that stops it is one sentence: Alembic shows a CommandError without a traceback."""
    if context.is_offline_mode():
        raise CommandError(
            "pidispatch's revisions read the database that they change, so `--sql` cannot write them down;"
            " leave it out, on a copy of the database if you want to see them first"
        )
    address = os.environ.get("DATABASE_URL")
    if not address:
        raise CommandError("DATABASE_URL is not set: it names the database, as for `pidispatch db upgrade`")
    try:
        database = Database(database_url(address), pool_size=1, application="alembic")
        with database.transaction() as connection:
            begin_changes(connection)
            run(connection, lambda line: print(line, file=sys.stderr))  # noqa: T201 - Alembic's own log is off
        database.close()
    except Unwanted as error:
        raise CommandError(f"DATABASE_URL: want {error.want}") from error
    except PidispatchError as error:
        raise CommandError(str(error)) from error


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over, context.config.attributes.get("say", lambda _: None))
else:
    by_hand()
