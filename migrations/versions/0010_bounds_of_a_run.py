"""Bounds that a run brings along, what its calls hold and cost, and why the gateway refused one.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

WAS_CAP = "Micro-dollars this run may spend"
CAP = "Micro-dollars it may spend; from admission on, as in force"
COLUMNS = {
    "scopes": [
        sa.Column(
            "stopped_at",
            sa.DateTime(timezone=True),
            comment="Set while an operator has every call of its runs refused",
        ),
    ],
    "runs": [
        sa.Column(
            "allowed_models",
            ARRAY(sa.Text()),
            comment="provider/model it may call; from admission on, as in force; null is any",
        ),
        sa.Column("excluded_tools", ARRAY(sa.Text()), comment="Tools of pi that it works without"),
        sa.Column(
            "egress_hosts",
            ARRAY(sa.Text()),
            comment="Hosts it may reach besides those that all runs may, as the allowlist writes them",
        ),
    ],
    "run_payloads": [
        sa.Column("skills_dir", sa.LargeBinary(), comment="Path of the skills it is given, on the host"),
    ],
    "run_attempts": [
        sa.Column("refused_reason", sa.Text(), comment="Why the gateway last refused a call of it"),
        sa.Column("refused_at", sa.DateTime(timezone=True), comment="When it did"),
        sa.Column(
            "refused_needed",
            sa.BigInteger(),
            comment="What that call needed at least, in micro-dollars for cost-cap and tokens for token-cap",
        ),
        sa.Column("refused_left", sa.BigInteger(), comment="What was left of the cap then"),
        sa.Column("refusals", sa.Integer(), server_default="0", nullable=False, comment="Calls it refused"),
    ],
    "provider_calls": [
        sa.Column(
            "held_tokens",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens reserved for this call",
        ),
        sa.Column(
            "lowered",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Its output was made shorter than asked, to fit what was left",
        ),
        sa.Column(
            "tokens_cache_write_1h",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Of the tokens written to the cache, those for an hour",
        ),
        sa.Column("cost_class", sa.Text(), comment="metered, floor, plan, estimate or unrated"),
        sa.Column("price_version", sa.Text(), comment="Which prices were used"),
    ],
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for column in columns:
            op.add_column(table, column)
    _cap(CAP, was=WAS_CAP)


def downgrade() -> None:
    _cap(WAS_CAP, was=CAP)
    for table, columns in COLUMNS.items():
        for column in columns:
            op.drop_column(table, column.name)


def _cap(comment: str, *, was: str) -> None:
    op.alter_column(
        "runs", "cost_cap_micros", comment=comment, existing_comment=was, existing_type=sa.BigInteger()
    )
