"""Draw docs/rooms.svg: the rooms of the package, from the import contracts and the map in `pidispatch/__init__.py`."""

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import pidispatch

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
WIDTH, MARGIN, GAP = 980, 20, 10
MOST_BESIDE = 4
LINE, PAD = 15, 10
LETTER = 6.8  # the width of one, nearly at most
ENTRY = re.compile(r"^( {4,})([a-z_]+) {2,}(\S.*)$", re.MULTILINE)


def rooms() -> Mapping[str, str]:
    """What the map says of each room, by its name below the package: `domain.files`."""
    path: list[str] = []
    told = {}
    for indent, name, text in ENTRY.findall(pidispatch.__doc__ or ""):
        path = [*path[: len(indent) // 4 - 1], name]
        told[".".join(path)] = text
    return told


def picture() -> str:
    """Rows from the top down; in a row, rooms that do not know each other."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    owned = _libraries(contracts)
    by_app = {
        name
        for each in contracts
        for name in each.get("protected_modules", ())
        if name.startswith("pidispatch.")
    }
    top, drawn = MARGIN, list[str]()
    for layer in layers:
        named = [name.strip() for name in layer.split("|")]
        present = [name for name in named if not name.startswith("(")]
        begun, boxes = top, list[str]()
        for begin in range(0, len(present), MOST_BESIDE):
            beside = present[begin : begin + MOST_BESIDE]
            texts = {name: _text(name, owned.get(name, ()), _width(len(beside))) for name in beside}
            height = PAD * 2 + LINE * max(map(len, texts.values()))
            for number, (name, lines) in enumerate(texts.items()):
                left = MARGIN + number * (_width(len(beside)) + GAP)
                boxes += _box(
                    left, top, _width(len(beside)), height, lines, dashed=f"pidispatch.{name}" in by_app
                )
            top += height + GAP
        if present:
            drawn += [_band(begun, top - GAP), *boxes]
            top += GAP
    legend = "Each row imports only from rows below it; rooms in a row do not import each other. Dashed: only app imports it."
    drawn.append(f'<text x="{MARGIN}" y="{top + LINE}" class="small">{escape(legend)}</text>')
    return "\n".join([_head(top + LINE + MARGIN), *drawn, "</svg>", ""])


def _libraries(contracts: Sequence[Mapping[str, Sequence[str]]]) -> Mapping[str, Sequence[str]]:
    """The libraries of each room: those that it alone may import."""
    owned: dict[str, list[str]] = {}
    for contract in contracts:
        libraries = [
            name for name in contract.get("protected_modules", ()) if not name.startswith("pidispatch.")
        ]
        if libraries:
            owner = contract["allowed_importers"][0].removeprefix("pidispatch.")
            owned.setdefault(owner, []).extend(libraries)
    return owned


def _text(name: str, libraries: Sequence[str], width: float) -> list[tuple[str, str]]:
    """Lines with their class: the name, what the map says, the rooms within, the libraries."""
    told = rooms()
    within = ", ".join(each.removeprefix(f"{name}.") for each in told if each.startswith(f"{name}."))
    lines = [("name", name)]
    for kind, text in (
        ("small", told[name].replace("`", "")),
        ("small", f"rooms: {within}" if within else ""),
        ("library", f"owns {', '.join(libraries)}" if libraries else ""),
    ):
        lines += [(kind, line) for line in textwrap.wrap(text, int((width - 2 * PAD) / LETTER))]
    return lines


def _band(top: float, bottom: float) -> str:
    """What lies behind the boxes of one row."""
    left, width = MARGIN - GAP / 2, WIDTH - 2 * MARGIN + GAP
    return f'<rect x="{left:.0f}" y="{top - GAP / 2:.0f}" width="{width:.0f}" height="{bottom - top + GAP:.0f}" rx="8" class="row"/>'


def _width(beside: int) -> float:
    return (WIDTH - 2 * MARGIN - GAP * (beside - 1)) / beside


def _box(
    left: float, top: float, width: float, height: float, lines: Sequence[tuple[str, str]], *, dashed: bool
) -> Iterator[str]:
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    yield f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{height}" rx="6" class="room"{dash}/>'
    for number, (kind, text) in enumerate(lines):
        yield f'<text x="{left + PAD:.0f}" y="{top + PAD + LINE * number + 11}" class="{kind}">{escape(text)}</text>'


def _head(height: int) -> str:
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>The rows and rooms of pidispatch</title>
<style>
text {{ font: 12px sans-serif; fill: #222 }}
.name {{ font-weight: bold; font-size: 13px }}
.library {{ font-style: italic; fill: #555 }}
.row {{ fill: #e3e8f1 }}
.room {{ fill: #fafbfd; stroke: #5a6b85 }}
</style>
<rect width="{WIDTH}" height="{height}" fill="#fff"/>"""
