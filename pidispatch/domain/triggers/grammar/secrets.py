"""Read `run.secrets`: which variables of the box the operator's vault fills. Only references pass through here."""

import re

from pidispatch.domain.box.names import is_reserved_for_secrets
from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.names import NAME_WANTED, is_name
from pidispatch.domain.text.jsonfile import Node, shown
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.part import Part

SECRETS_MAX = 16
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_secrets(draft: Draft) -> None:
    draft.work["secrets"] = _references(draft)
    draft.work["secrets_profile"] = _profile(draft.run)


def _references(draft: Draft) -> tuple[tuple[str, str], ...]:
    run = draft.run
    node = run.given("secrets")
    if node is None:
        return ()
    if not isinstance(node.value, dict) or not 1 <= len(node.value) <= SECRETS_MAX:
        run.refuse("secrets", f"must be an object from 1 to {SECRETS_MAX} names of variables to references")
    pairs = tuple((name, _reference(run, name, value)) for name, value in node.value.items())
    if draft.resumes:
        run.refuse("secrets", "does not go with run.resume: a kept session may hold what a secret was")
    return pairs


def _reference(run: Part, name: str, node: Node) -> str:
    if not _VARIABLE.fullmatch(name) or name == "__proto__":
        run.refuse("secrets", f"holds {shown(name)}, which is no name of a variable (A-Z, a-z, 0-9, _)")
    if is_reserved_for_secrets(name):
        run.refuse("secrets", f"holds {name}, which pidispatch or pi itself sets or reads; use another name")
    text = node.value
    if not isinstance(text, str) or not trim(text):
        run.refuse("secrets", f"holds {name} without a reference: a text that is not empty")
    if text != trim(text) or text.startswith("-"):
        run.refuse(
            "secrets", f"holds {name} with a reference that begins or ends with space, or begins with a dash"
        )
    return text


def _profile(run: Part) -> str | None:
    name = run.filled_if_given("secretsProfile")
    if name is None:
        return None
    if not is_name(name):
        run.refuse("secretsProfile", f"must be of {NAME_WANTED}")
    if "secrets" not in run.fields:
        run.refuse("secretsProfile", "needs run.secrets; without it there is nothing to resolve")
    return name
