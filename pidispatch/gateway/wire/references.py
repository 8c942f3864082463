"""Collect what a model request leads to beyond its own bytes.

A provider can be sent to an address, to a tool of its own, or to a file that it keeps: each is a way out of the box
that no proxy sees. A request with any of it says nothing of another one.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from pidispatch.gateway.wire.scanning import as_dict

MOST_ADDRESSES = 1_000
MOST_SHOWN = 64
_LOOKS_LIKE_ONE = re.compile(r"\s*(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]{2}|https?:)", re.IGNORECASE)


@dataclass(slots=True)
class References:
    """What stands in one request.

    `addresses`: what a provider would fetch, as it is written. `words`: what is no plain part of the API, by the word
    that an operator can list, with how it is said. `unreadable`: a part that can be read in no way or in two, or that
    stands for something kept elsewhere: nothing lets it through. `unbounded`: what in it has no bound, if anything.
    """

    addresses: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    unreadable: str | None = None
    unbounded: str | None = None

    def address(self, text: str) -> None:
        self.unbound("content by its address, whose size is not known")
        if len(self.addresses) < MOST_ADDRESSES:
            self.addresses.add(text)
        else:
            self.refuse("the request has too many addresses")

    def word(self, word: str, said: str) -> None:
        """Something that is not known to stay inside the request: a tool, a kind of content, a member."""
        self.unbound(said)
        if len(self.words) < MOST_ADDRESSES:
            self.words.setdefault(word, said)
        else:
            self.refuse("the request has too many parts that are not known here")

    def refuse(self, problem: str) -> None:
        self.unbound(problem)
        self.unreadable = self.unreadable or problem

    def unbound(self, problem: str) -> None:
        self.unbounded = self.unbounded or problem

    def addresses_in(self, value: Any) -> None:
        """Take every text of a built value that looks like an address: of what is not known, any could be fetched."""
        pending = [value]
        while pending:
            each = pending.pop()
            if isinstance(each, str) and _LOOKS_LIKE_ONE.match(each):
                self.address(each)
            elif isinstance(each, list):
                pending += each
            else:
                pending += as_dict(each).values()


def looks_like_address(text: str) -> bool:
    return _LOOKS_LIKE_ONE.match(text) is not None
