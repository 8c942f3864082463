"""Say what a run needs of its image, and whether the image declares it."""

from collections.abc import Iterable, Mapping

from pidispatch.domain import words
from pidispatch.domain.ask import Ask

LABEL = "dev.pi-dispatch.capabilities"
# The image's entrypoint is a process 1 of its own, which ends the box at its deadline when nobody else does.
OWN_INIT = "ownInit"
# In the order in which a lack of them is told. Which models are called and what they cost is kept by the gateway, whatever
# the image does, so that nothing is asked of it there.
REFUSALS = {
    "replicas": words.JOB_IMAGE_REPLICAS_UNSUPPORTED,
    "commands": words.JOB_IMAGE_COMMANDS_UNSUPPORTED,
    "excludeTools": words.JOB_IMAGE_EXCLUDE_TOOLS_UNSUPPORTED,
}


def needed_by(ask: Ask, *, replicas: int | None) -> frozenset[str]:
    """The capabilities without which the run would be done in another way than asked."""
    asked = {
        "replicas": replicas is not None,
        "commands": ask.command is not None,
        "excludeTools": bool(ask.excluded_tools),
    }
    return frozenset(name for name, wanted in asked.items() if wanted)


def has_own_init(labels: Mapping[str, str]) -> bool:
    return OWN_INIT in declared(labels)


def declared(labels: Mapping[str, str]) -> frozenset[str]:
    return frozenset(word.strip() for word in labels.get(LABEL, "").split(","))


def lacking(labels: Mapping[str, str], needed: Iterable[str]) -> str | None:
    """The reason a record gives for the first of these that the image does not declare; None when it can them all."""
    wanted, offered = set(needed), declared(labels)
    return next((word for name, word in REFUSALS.items() if name in wanted and name not in offered), None)
