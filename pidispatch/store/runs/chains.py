"""Write the runs that a run asked for, in the transaction that ends it."""

from dataclasses import replace

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pidispatch.domain.runs.ask import Kinship
from pidispatch.domain.runs.chaintree import (
    ChainAnswer,
    ChainParent,
    Harvest,
    TreeCaps,
    TreeUse,
    answers_in,
    within_tree,
)
from pidispatch.domain.runs.outbox import Child, RequestRefusal
from pidispatch.domain.runs.run import NewRun
from pidispatch.store.database import Database
from pidispatch.store.rows import record
from pidispatch.store.runs.submissions import add_runs, kept

MOST_TOLD = 100  # answers that are kept word for word; all are counted

# The commit is that of the first attempt whose agent worked: no later one may vouch for what this run left.
PARENT = text("""
SELECT r.kind, r.public_id, r.chain_depth AS depth, p.folder, r.image, r.cost_cap_asked AS cost_cap_micros,
       (SELECT a.commit_before FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL
        ORDER BY a.attempt LIMIT 1) AS commit
FROM runs r LEFT JOIN run_payloads p ON p.run_id = r.id WHERE r.id = :id
""")
# Two runs of one tree may end at once: they take turns, or each would see room that both take.
LOCK_ROOT = text("""
SELECT r.id FROM runs r WHERE r.id = (SELECT coalesce(p.root_id, p.id) FROM runs p WHERE p.id = :id)
FOR NO KEY UPDATE OF r
""")
# As it is settled in a window: while a call's cost is unknown the run counts what it may spend, or what is known if more.
TREE_USE = text("""
WITH tree AS (
  SELECT r.id, r.state = 'ended' OR r.id = :id AS over, coalesce(r.cost_cap_micros, :each, 0) AS cap,
         EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL) AS charged
  FROM runs r WHERE r.id = :root OR r.root_id = :root),
spent AS (
  SELECT t.id, coalesce(sum(c.counted_micros), 0)::bigint AS known, count(c.id) = count(c.counted_micros) AS exact
  FROM tree t LEFT JOIN provider_calls c ON c.run_id = t.id GROUP BY t.id)
SELECT count(*) FILTER (WHERE t.charged OR NOT t.over) AS runs,
       coalesce(sum(CASE WHEN t.over AND NOT t.charged THEN 0 WHEN t.over AND s.exact THEN s.known
                         ELSE greatest(t.cap, s.known) END), 0)::bigint AS micros
FROM tree t JOIN spent s ON s.id = t.id
""")
TELL = text("UPDATE runs SET chain_refused = :refused, chain_answers = :answers WHERE id = :id").bindparams(
    bindparam("answers", type_=JSONB(none_as_null=True))
)
ANSWERS = text("SELECT chain_answers FROM runs WHERE id = :id")


class Chains:
    """What runs hand down to their children, and what became of their requests. Raises DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def parent(self, run_id: int) -> ChainParent:
        """What the children of this run would inherit."""
        with self._database.transaction() as connection:
            return record(ChainParent, connection.execute(PARENT, {"id": run_id}).one())

    def answers(self, run_id: int) -> tuple[ChainAnswer, ...]:
        """What became of the requests of a run that has ended, of at most 100 of them."""
        with self._database.transaction() as connection:
            return answers_in(connection.execute(ANSWERS, {"id": run_id}).scalar_one_or_none())


def plant(connection: Connection, run_id: int, harvest: Harvest) -> None:
    """Queue the children, as many as the tree has room for, and keep what became of each request.

    The run itself is locked, no scope yet. It has not ended, so that its children exist exactly if its end does.
    """
    answers = harvest.answers
    if harvest.children and harvest.caps.bind:
        answers = within_tree(answers, _tree_use(connection, run_id, harvest.caps), harvest.caps)
    children = [answer for answer in answers if isinstance(answer, Child)]
    if children:
        parent = kept(connection, run_id)
        add_runs(connection, [_child(parent, run_id, child) for child in children])
    refused = sum(isinstance(answer, RequestRefusal) for answer in answers)
    told = [_told(answer) for answer in answers[:MOST_TOLD]]
    connection.execute(TELL, {"id": run_id, "refused": refused, "answers": told or None})


def _tree_use(connection: Connection, run_id: int, caps: TreeCaps) -> TreeUse:
    root = connection.execute(LOCK_ROOT, {"id": run_id}).scalar_one()
    used = connection.execute(TREE_USE, {"id": run_id, "root": root, "each": caps.each}).one()
    return TreeUse(used.runs, used.micros)


def _child(parent: NewRun, run_id: int, asked: Child) -> NewRun:
    """What bounds the parent bounds its children, or an agent could ask for a run without bounds.

    It begins with the model that is configured, and reaches no host that the parent alone may reach.
    """
    kinship = parent.kinship
    return replace(
        parent,
        public_id=asked.public_id,
        ask=replace(parent.ask, flow=asked.flow, command=None, provider=None, model=None, egress_hosts=None),
        kinship=Kinship(run_id, kinship.root_id or run_id, kinship.chain_depth + 1),
        task=asked.task,
        task_bytes=len(asked.task),
        event=asked.event,
        title=None,
        body=None,
        subject=None,
        trigger_type="chain",
        trigger_id=None,
        trigger_index=None,
    )


def _told(answer: Child | RequestRefusal) -> dict[str, str]:
    if isinstance(answer, Child):
        return {"request": answer.number, "run": answer.public_id}
    told = {"request": answer.number, "refused": answer.word}
    return told if answer.why is None else {**told, "why": answer.why}
