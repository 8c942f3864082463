"""What the pages that are made of the code have in common."""

from collections.abc import Iterator, Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table; a bar in a cell does not end it."""
    yield _line(headings)
    yield "|" + "---|" * len(headings)
    yield from (_line([cell.replace("|", "\\|") for cell in row]) for row in rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
