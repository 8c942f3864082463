"""Draw docs/benchmarks/NAME.svg: what a benchmark came to in each release whose results are kept, beside its target."""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks/results"
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 240, 60, 44, 34


def plots() -> Mapping[str, str]:
    """A picture for each benchmark of which a result is kept, by its name under docs/."""
    kept: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for path in sorted(RESULTS.glob("*.json"), key=_release):
        line = json.loads(path.read_text())
        release = path.name.removesuffix(f".{line['name']}.json")
        kept.setdefault(line["name"], []).append((release, line))
    return {f"benchmarks/{name}.svg": picture(name, lines) for name, lines in kept.items()}


def picture(name: str, lines: list[tuple[str, dict[str, Any]]]) -> str:
    """Dots for values, a bar for their spread, a hollow dot where there was no verdict, a line for the target."""
    numbers = [
        number for _, line in lines for number in (line["value"], line["target"], *(line["spread"] or []))
    ]
    top = max(numbers) * 1.1 or 1.0
    return "\n".join([_head(name, lines[-1][1]), *_drawn(lines, top), "</svg>", ""])


def _drawn(lines: list[tuple[str, dict[str, Any]]], top: float) -> Iterator[str]:
    def height(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * max(0.0, value) / top

    target = lines[-1][1]["target"]
    yield f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{height(0):.1f}" y2="{height(0):.1f}" class="axis"/>'
    yield f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{height(target):.1f}" y2="{height(target):.1f}" class="target"/>'
    yield f'<text x="4" y="{height(target) + 4:.1f}">{target:g}</text>'
    step = (WIDTH - LEFT - 10) / len(lines)
    for place, (release, line) in enumerate(lines):
        x = LEFT + step * (place + 0.5)
        if line["spread"]:
            low, high = (height(each) for each in line["spread"])
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" class="spread"/>'
        hollow = ' fill-opacity="0"' if line["ok"] is None else ""
        yield f'<circle cx="{x:.1f}" cy="{height(line["value"]):.1f}" r="4"{hollow}/>'
        yield f'<text x="{x + 8:.1f}" y="{height(line["value"]) + 4:.1f}">{line["value"]:g}</text>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(release)}</text>'


def _release(path: Path) -> list[tuple[int, str]]:
    """2 before 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _head(name: str, line: dict[str, Any]) -> str:
    of = f"{name}: {line.get('of', '')}".rstrip(": ")
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">
<title>{escape(of)}, {escape(line["unit"])}</title>
<style>
text {{ font: 12px sans-serif; fill: #222 }}
.axis {{ stroke: #5a6b85 }}
.target {{ stroke: #b3541e; stroke-dasharray: 5 3 }}
.spread {{ stroke: #5a6b85; stroke-width: 2 }}
circle {{ fill: #5a6b85; stroke: #5a6b85 }}
</style>
<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>
<text x="{LEFT}" y="20" font-weight="bold">{escape(of)} ({escape(line["unit"])}; dashed: the target)</text>"""
