"""Reasons and causes stand in one table; the rest of the package uses its names, and the page is made of it."""

import ast
import copy
import pickle
import re
import runpy
from pathlib import Path

import pytest

from pidispatch.domain import words
from pidispatch.domain.words import WORDS, Use, Word, gate_of, meaning

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pidispatch"
TABLE = PACKAGE / "domain/words.py"

# Texts that equal a word and stay, each with its reason.
BELOW = "this module stands below the domain; the test checks that each of its words is in the table"
LITERALS = {
    ("errors.py", "engine-refused"): BELOW,
    ("errors.py", "job-image-missing"): BELOW,
    ("errors.py", "job-image-wrong-arch"): BELOW,
    ("errors.py", "entrypoint-missing"): BELOW,
    ("errors.py", "disk-full"): BELOW,
    ("errors.py", "name-taken"): BELOW,
    ("errors.py", "mount-differs"): BELOW,
    ("errors.py", "mount-unseen"): BELOW,
    ("errors.py", "skills-dir-unusable"): BELOW,
    ("domain/egress.py", "too-many"): "why a host was not reached, a closed list of its own",
    ("domain/health.py", "disk-low"): "what is red, the closed list of a metric's label",
    ("domain/reconcile.py", "never-started"): "what the reconciler does, no reason",
    ("entrypoints/scripted/scenarios.py", "completed"): "what a scripted agent forges",
    ("store/models.py", "never-started"): "an attempt's outcome, in a constraint that a migration wrote",
    ("store/endings.py", "never-started"): "an attempt's outcome",
    ("store/losses.py", "never-started"): "an attempt's outcome",
    ("store/models.py", "cost-cap"): "a constraint that a migration wrote",
    ("store/models.py", "token-cap"): "a constraint that a migration wrote",
}
# A word of one syllable is also a column, a state or a key: there it counts where a reason stands.
REASON = re.compile(r"(?:^|_)(?:reason|cause|why|word|problem)$")
GIVERS = {"End", "Again", "Refused", "Deferred", "FolderRefused", "Unrunnable", "Dropped", "Exceeds", "Stopped", "Slot"}  # fmt: skip
IN_SQL = re.compile(r"(?:reason|cause|why)\s*(?:=|<>|IS (?:NOT )?DISTINCT FROM)\s*'([a-z0-9-]+)'")
QUOTED = re.compile(r"'([a-z][a-z0-9]*(?:-[a-z0-9]+)+)'")


def docstrings(tree):
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            yield id(node.body[0].value)


def said_as_reasons(tree):
    """Text constants that stand where a reason stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from node.args if name in GIVERS else ()
            yield from (each.value for each in node.keywords if REASON.search(each.arg or ""))
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(REASON.search(getattr(side, "id", getattr(side, "attr", ""))) for side in sides):
                yield from (part for side in sides for part in ast.walk(side))
        elif isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in named if REASON.search(str(getattr(key, "value", ""))))
        elif isinstance(node, ast.Assign) and any(
            REASON.search(getattr(target, "id", "")) for target in node.targets
        ):
            yield node.value


def literals_of(source):
    tree = ast.parse(source)
    told = set(docstrings(tree))
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]
    found = {text for text in texts if "-" in text and text in WORDS}
    for text in texts:
        found.update(word for word in QUOTED.findall(text) + IN_SQL.findall(text) if word in WORDS)
    for node in said_as_reasons(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in WORDS:
            found.add(node.value)
    return found


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('x = {"job-image-missing": 1}', "job-image-missing"),
        ('Refused("paused", None)', "paused"),
        ('defer(run, cause="scope")', "scope"),
        ('if run.reason == "lost": pass', "lost"),
        ('if reason in {"closed", other}: pass', "closed"),
        ('stop_reason = "deadline"', "deadline"),
        ('answer = {"go": False, "reason": "malformed"}', "malformed"),
        ("text(\"UPDATE runs SET cause = 'paused'\")", "paused"),
        ("text(f\"... THEN 'cap-held' END {x}\")", "cap-held"),
    ],
)
def test_a_literal_is_found_wherever_it_stands(source, word):
    assert literals_of(source) == {word}


@pytest.mark.parametrize(
    "source", ['"""cap-held"""', 'row["scope"]', "\"SELECT scope FROM runs WHERE state = 'held'\""]
)
def test_what_is_no_reason_is_not_found(source):
    assert literals_of(source) == set()


def test_no_module_but_the_table_spells_a_word_out():
    found = {
        (path.relative_to(PACKAGE).as_posix(), word)
        for path in PACKAGE.rglob("*.py")
        if path != TABLE
        for word in literals_of(path.read_text())
    }

    assert found == set(LITERALS)


def test_no_reason_is_given_that_the_table_does_not_have():
    missing = {
        (path.relative_to(PACKAGE).as_posix(), node.value)
        for path in PACKAGE.rglob("*.py")
        for node in said_as_reasons(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and re.fullmatch(r"[a-z][a-z0-9-]*", str(node.value))
    }

    assert {(path, word) for path, word in missing if word not in WORDS} == set()


def test_each_constant_has_its_words_name():
    named = {name: each for name, each in vars(words).items() if isinstance(each, Word)}

    assert {name: name.lower().replace("_", "-") for name in named} == named
    assert len(WORDS) == len(named)


@pytest.mark.parametrize("word", list(WORDS.values()), ids=str)
def test_each_word_is_used_somewhere_and_fits_its_column(word):
    assert word.meanings
    assert all(said and not said.endswith(".") for said in word.meanings.values())
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,63}", word)


def test_a_word_is_plain_text_for_another_process():
    for copied in (pickle.loads(pickle.dumps(words.CAP_HELD)), copy.deepcopy(words.CAP_HELD)):
        assert copied == "cap-held"
        assert type(copied) is str


def test_a_word_of_a_newer_version_means_nothing_here():
    assert meaning("not-known-yet", Use.END) is None
    assert meaning(words.CAP_HELD, Use.END) is None
    assert gate_of("not-known-yet") is None
    assert gate_of(None) is None


def test_the_page_is_made_of_the_table():
    page = runpy.run_path(str(ROOT / "scripts/words_page.py"))

    assert (ROOT / "docs/words.md").read_text() == page["page"](), "run scripts/words_page.py"
