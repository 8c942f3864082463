"""Read the session that a box left, whatever the agent made of it."""

from collections.abc import Callable

from pidispatch.domain import words
from pidispatch.domain.session import NotKept, problem_of
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
