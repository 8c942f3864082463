"""Write runs as they are asked for, whatever others ask for at the same time."""

from pidispatch.domain.runs.run import NewRun
from pidispatch.store.database import Database
from pidispatch.store.runs.submissions import add_run


def submit(database: Database, run: NewRun) -> int | None:
    with database.transaction() as connection:
        return add_run(connection, run)
