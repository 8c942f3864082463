"""Read the requests in an outbox, whatever the agent made of it."""

import os
from collections.abc import Callable, Iterator

from pidispatch.domain import words
from pidispatch.domain.runs.outbox import REQUEST_BYTES, WHOLE_OUTBOX, Letter, request_names
from pidispatch.domain.runs.session import NotKept, problem_of
from pidispatch.files.untrusted import NotRegular, TooLarge, directory, read_regular

NAME = b"current.jsonl"
MOST_EVER = (
    256 * 1024 * 1024
)  # where an operator sets no limit: it is held in memory, and in one value of a row

Mask = Callable[[bytes], bytes]


def read_session(path: str, *, most: int, mask: Mask) -> bytes | NotKept:
    """The session in directory `path`, with what `mask` hides hidden. Of at most `most` bytes; 0 is no limit.

    Raises what `mask` raises, and no OSError.
    """
    try:
        with directory(path) as session:
            content = read_regular(NAME, below=session, most=min(most or MOST_EVER, MOST_EVER))
    except TooLarge:
        return NotKept(words.TOO_LARGE)
    except (NotRegular, OSError):
        return NotKept(words.NOT_A_REGULAR_FILE)
    content = mask(content)
    problem = problem_of(content)
    return content if problem is None else NotKept(problem)


MOST_ENTRIES = 10_000  # of which nobody needs more than a few; the rest would only cost time


def read_outbox(path: str, *, most: int) -> tuple[Letter, ...]:
    """Every request by number, the first `most` of them with their bytes; the others are not opened.

    An outbox that cannot be listed, or has more than 10,000 entries, is one refusal. Never raises OSError.
    """
    try:
        with directory(path) as outbox:
            names = list(_names(outbox))
            if len(names) > MOST_ENTRIES:
                return (Letter(WHOLE_OUTBOX, refused=words.CHAIN_COLLECT_ERROR),)
            return tuple(
                _letter(number, name, outbox)
                if place < most
                else Letter(number, refused=words.CHAIN_COUNT_CAP)
                for place, (number, name) in enumerate(request_names(names))
            )
    except OSError:
        return (Letter(WHOLE_OUTBOX, refused=words.CHAIN_COLLECT_ERROR),)


def _names(outbox: int) -> Iterator[str]:
    with os.scandir(outbox) as entries:
        for seen, entry in enumerate(entries):
            yield entry.name
            if seen >= MOST_ENTRIES:
                return


def _letter(number: str, name: str, outbox: int) -> Letter:
    try:
        return Letter(number, read_regular(name, below=outbox, most=REQUEST_BYTES))
    except NotRegular:
        return Letter(number, refused=words.CHAIN_NOT_REGULAR_FILE)
    except TooLarge:
        return Letter(number, refused=words.CHAIN_OVERSIZE)
