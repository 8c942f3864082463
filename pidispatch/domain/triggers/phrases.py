"""Find the phrase of a comment entry in a comment, and the flow that the words after it name."""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache

_WORD = "A-Za-z0-9_-"
_FLOW = r"[a-z0-9_-]{1,64}"
_CLOSING = r"[.,;:!?)\]}>'\"*`]*"  # what may follow a flow's name in a sentence


def has_phrase(comment: str, phrase: str) -> bool:
    """Case-sensitive, anywhere; but `@pi` is not in `@pip`."""
    # Most phrases of a large file are not in a comment at all, and their patterns need not even be compiled.
    return phrase in comment and _searches(phrase)[0].search(comment) is not None


def summoned_flow(comment: str, phrase: str, flows: AbstractSet[str]) -> str | None:
    """The known flow that follows the first phrase that has a word behind it; None when that is no flow."""
    found = _searches(phrase)[1].search(comment)
    return found[1] if found is not None and found[1] in flows else None


@lru_cache(maxsize=1024)
def _searches(phrase: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The phrase, and the phrase with the first word behind it. Azure's comments are HTML: a tag ends a word."""
    ends = rf"(?![{_WORD}])" if re.search(rf"[{_WORD}]\Z", phrase) else ""
    said = re.escape(phrase) + ends
    word = rf"(?:({_FLOW})(?={_CLOSING}(?:\s|&nbsp;|<|\Z)))?"
    return re.compile(said), re.compile(rf"{said}(?:\s|&nbsp;)+(?=\S){word}")
