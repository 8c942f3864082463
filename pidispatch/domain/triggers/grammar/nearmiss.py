"""Recognise a key that was meant to be one whose absence costs money or starts what should have waited.

Other unknown keys are dropped, so that a file of a later version still loads. These are refused: a cap, a condition
or an excluded tool that is not read leaves a file that looks as if it were.
"""

from collections.abc import Iterable

from pidispatch.domain.text.lookalikes import KeyFamily, family_of
from pidispatch.domain.triggers.grammar.part import Part

WAIT = family_of("run", gaps=False, waitFor="")
BACKEND = family_of("run", backend="backends")
TOOLS = family_of("run", excludeTools="excludetool excludedtools")
MODELS = family_of(
    "run",
    provider="providers providerid providerids providername",
    model="modelid modelname",
    models="modelids modelnames allowedmodels allowedmodel",
    maxTurns="maxturn",
    maxCostUsd="maxcost",
)
# The keys that are not the reference's own. `while_running` loses its separator here as any spelling does.
OURS_ON = KeyFamily(
    "on",
    {
        **dict.fromkeys(("repo", "repos", "repositories", "repository"), "repo"),
        **dict.fromkeys(("tz", "timezone"), "tz"),
        "missed": "missed",
        "whilerunning": "while_running",
    },
    gaps=False,
)
OURS_RUN = family_of("run", gaps=False, priority="priorities", egress="egresshosts egressallowlist")
# What makes an entry fire less often: left out, each event starts a run.
NARROWING = family_of(
    "on",
    gaps=False,
    number="numbers iid",
    once="onlyonce",
    disarmed="disarm",
    none="not exclude excluded",
    reviewState="reviewstates",
)
MISPLACED = (WAIT, BACKEND, TOOLS, MODELS)

_LEGAL_ELSEWHERE = {"run": frozenset({"repository"})}


def sweep(parts: Iterable[Part], family: KeyFamily) -> None:
    """Refuse each key that is meant to be one of the family and is not read as it."""
    legal = frozenset(family.meant.values())
    for part in parts:
        for key in part.fields:
            if key in _LEGAL_ELSEWHERE.get(part.name, ()) or (part.name == family.part and key in legal):
                continue
            name = family.meant_by(key)
            if name is not None:
                part.refuse(
                    key,
                    f"is not a field; {family.part}.{name} is, and it must be spelled and placed like that",
                )
