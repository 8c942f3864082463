"""Name the words of each forge for what happened, in the forge's own spelling."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pidispatch.domain.triggers.trigger import Kind

REVIEW_SUBMITTED = "review_submitted"
REVIEW_STATES = ("approved", "changes_requested", "commented")


@dataclass(frozen=True, slots=True)
class ForgeWords:
    """`labelled` and `closed` are the actions of a pull request that say so, None where a forge has none."""

    pull_request: tuple[str, ...]
    labelled: str | None = None
    closed: str | None = None
    issue: tuple[str, ...] = ()


WORDS: Mapping[Kind, ForgeWords] = MappingProxyType(
    {
        Kind.GITHUB: ForgeWords(
            ("labeled", "opened", "synchronize", "reopened", REVIEW_SUBMITTED, "closed"),
            labelled="labeled",
            closed="closed",
            issue=("closed",),
        ),
        Kind.GITLAB: ForgeWords(
            ("open", "update", "reopen", "approved", "close"), closed="close", issue=("close",)
        ),
        Kind.FORGEJO: ForgeWords(
            ("label_updated", "opened", "synchronized", "reopened", "closed"),
            labelled="label_updated",
            closed="closed",
            issue=("closed",),
        ),
        Kind.AZURE: ForgeWords(("created", "updated")),
    }
)
CLOSE_WORDS = ", ".join(f"{kind}: {words.closed}" for kind, words in WORDS.items() if words.closed)
