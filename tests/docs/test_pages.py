"""What is made of the code under docs/ is as the code is, and what the pages point to is there."""

import re
from pathlib import Path

import pytest
import typer.main

from pidispatch.entrypoints.cli import manual
from pidispatch.entrypoints.cli.commands import cli
from pidispatch.store.tables import METADATA
from scripts import benchmark_plots, schema_page
from scripts.pages import pages

ROOT = Path(__file__).parents[2]
MADE = dict(pages())
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")


@pytest.mark.parametrize("name", MADE)
def test_a_page_is_made_of_the_code(name):
    assert (ROOT / "docs" / name).read_text() == MADE[name], "run `make docs`"


def places(page):
    """The anchors of a page, as forges name them."""
    text = page.read_text()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.+?)\]\(.+?\)", r"\1", heading).lower())
        yield plain.strip().replace(" ", "-")
    yield from re.findall(r'<a id="(.+?)">', text)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)

    for link in LINK.findall(prose):
        if "://" in link:
            continue
        name, _, place = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not place or place in set(places(target)), link


def commands(group, path=()):
    """Name and command of each, groups too."""
    context = group.context_class(group, info_name="pidispatch")
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        yield " ".join((*path, name)), command
        if hasattr(command, "list_commands"):
            yield from commands(command, (*path, name))


def test_the_manual_has_each_command_and_no_other():
    found = dict(commands(typer.main.get_command(cli)))

    assert set(manual.TEXTS) == {"", *found}
    assert {name: command.help for name, command in found.items()} == {
        name: manual.text(name) for name in found
    }


@pytest.mark.parametrize("name", manual.TEXTS)
def test_a_text_of_the_manual_names_its_exit_codes(name):
    text = manual.text(name)

    assert "[" not in text, "markup to a terminal"
    assert manual.line(name).endswith(".")
    if not any(other.startswith(f"{name} ") for other in manual.TEXTS) or name == "":
        assert text.split("\n\n")[-1].startswith("Exit code: ")


def test_each_table_has_one_sentence():
    told = [name for group in schema_page.SENTENCES.values() for name in group]

    assert sorted(told) == sorted(METADATA.tables)
    assert all(each.endswith(".") for group in schema_page.SENTENCES.values() for each in group.values())


def test_a_plot_shows_each_release_in_order_its_spread_and_no_verdict():
    line = {"name": "x", "value": 3.5, "unit": "ms", "target": 3.0, "ok": True, "spread": [3.0, 4.0]}
    later = {**line, "value": 2.5, "ok": None, "spread": None}

    drawn = benchmark_plots.picture("x", [("0.2.0", line), ("0.10.0", later)])

    assert drawn.index(">0.2.0<") < drawn.index(">0.10.0<")
    assert drawn.count("<circle") == 2
    assert drawn.count('class="spread"') == 1
    assert drawn.count('fill-opacity="0"') == 1
    ordered = sorted([Path("0.10.0.x.json"), Path("0.2.0.x.json")], key=benchmark_plots._release)
    assert ordered[0].name == "0.2.0.x.json"
