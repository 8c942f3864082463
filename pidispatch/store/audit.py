"""Write down what an operator did."""

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

ADD = text(
    "INSERT INTO audit_log (actor, action, subject, detail) VALUES (:actor, :action, :subject, :detail)"
).bindparams(bindparam("detail", type_=JSONB))


def audit(connection: Connection, action: str, subject: str, actor: str, detail: dict[str, object]) -> None:
    """In the transaction of the action itself, so that one is not without the other."""
    connection.execute(ADD, {"actor": actor, "action": action, "subject": subject, "detail": detail})
