"""Run migrations on the connection that pidispatch hands over, or on DATABASE_URL for plain `alembic`."""

import os

from alembic import context
from sqlalchemy import Connection, create_engine

from pidispatch.store.models import Base


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


handed_over = context.config.attributes.get("connection")
if handed_over is not None:
    run(handed_over)
else:
    with create_engine(os.environ["DATABASE_URL"]).connect() as own:
        run(own)
        own.commit()
