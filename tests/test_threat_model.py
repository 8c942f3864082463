"""The threat model names code and tests that are there, and says of every property how it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/threat-model.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.count("|") == 6
]
PROPERTIES = [row for row in ROWS if row[0] != "property" and not set(row[0]) <= set("-")]
OF_THE_DATABASE = {"admission_take"}


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("row", PROPERTIES, ids=lambda row: row[0][:60])
def test_a_property_stands_on_code_and_tests_that_are_there(row):
    _property, code, tests, status, _tried = row

    assert status in {"enforced", "asserted", "absent"}
    assert (status == "absent") == (not names(code) and not names(tests)) or status == "asserted"
    places = [name for name in names(code) if name not in OF_THE_DATABASE]
    missing = [
        name for name in places if not any((ROOT / top / name).is_file() for top in ("pidispatch", "."))
    ]
    assert missing == []
    assert [name for name in names(tests) if not (ROOT / name).is_file()] == []


def test_every_folder_of_attacks_is_in_the_threat_model():
    folders = {path.parent.name for path in (ROOT / "tests/attack").glob("*/test_*.py")}

    assert {name for name in folders if f"tests/attack/{name}/" not in PAGE} == set()
