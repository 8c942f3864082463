"""The mark of a used-up one-shot, put into the text of the file and taken out again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.marking import with_disarmed, without_disarmed
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.errors import ConfigurationRefused
from tests.domain.files.triggers.builders import ISSUE, LABEL, changed, text

MARK = Disarmed("2026-11-02T10:00:00Z", "gh-1")
WRITTEN = b"""{
  "_comment": "reviewed by Ann",
  "version": 7,
  "triggers": [
    {"on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix"}},
    {
      "//": "deploys when 40 closes",
      "on": {
        "type": "issue",   "action": ["closed"],
        "number": 4e1, "once": true
      },
      "run": { "kind":"github" , "flow":"deploy", "colour": 1.50 }
    }
  ],
  "later": {}
}
"""


def test_only_the_mark_is_added():
    marked = with_disarmed(WRITTEN, "t", 1, MARK)

    assert marked == WRITTEN.replace(
        b'"once": true\n', b'"once": true, "disarmed": {"at": "2026-11-02T10:00:00Z", "jobId": "gh-1"}\n'
    )
    assert parse_triggers(marked, "t").entries[1].disarmed == MARK


def test_taking_it_out_gives_the_same_bytes():
    assert without_disarmed(with_disarmed(WRITTEN, "t", 1, MARK), "t", 1) == WRITTEN


def test_it_stands_on_a_line_of_its_own_where_the_others_do():
    content = json.dumps({"triggers": [ISSUE]}, indent=2).encode()

    marked = with_disarmed(content, "t", 0, Disarmed("x"))

    assert b'        "once": true,\n        "disarmed": {"at": "x"}\n      },' in marked
    assert without_disarmed(marked, "t", 0) == content


@pytest.mark.parametrize("indent", [None, 0, 1, "\t"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_any_layout_comes_back_byte_for_byte(indent, separators, newline):
    whole = {"triggers": [LABEL, ISSUE, changed(ISSUE, on={"number": 41})], "x": "\u00e9\u4efb"}
    content = (
        json.dumps(whole, indent=indent, separators=separators, ensure_ascii=False)
        .replace("\n", newline)
        .encode()
    )

    marked = with_disarmed(content, "t", 1, MARK)

    found = parse_triggers(marked, "t").entries
    assert [each.disarmed for each in found] == [None, MARK, None]
    assert without_disarmed(marked, "t", 1) == content


@pytest.mark.parametrize("place", range(5))
def test_a_mark_is_taken_out_wherever_it_stands(place):
    keys = list(ISSUE["on"].items())
    keys.insert(place, ("disarmed", {"at": "x", "jobId": "gh-1"}))
    content = json.dumps({"triggers": [{**ISSUE, "on": dict(keys)}]}, indent=1).encode()

    assert without_disarmed(content, "t", 0) == json.dumps({"triggers": [ISSUE]}, indent=1).encode()


def test_a_mark_that_is_there_stays_and_none_is_no_change():
    marked = text(changed(ISSUE, on={"disarmed": {"at": "by hand"}}))

    assert with_disarmed(marked, "t", 0, MARK) == marked
    assert without_disarmed(WRITTEN, "t", 1) == WRITTEN


@pytest.mark.parametrize("index", [-1, 0, 2, 99])
def test_an_entry_that_is_no_one_shot_gets_no_mark(index):
    for change in (
        lambda: with_disarmed(WRITTEN, "t", index, MARK),
        lambda: without_disarmed(WRITTEN, "t", index),
    ):
        with pytest.raises(ConfigurationRefused, match="is no one-shot"):
            change()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"triggers": 1}', b'{"triggers": [1]}', b'{"triggers": [{"on": 1}]}',
                                     b'{"triggers": [{"on": {}, "on": {}}]}', b"\xff"])  # fmt: skip
def test_a_file_that_cannot_be_read_is_never_repaired(content):
    with pytest.raises(ConfigurationRefused):
        with_disarmed(content, "t", 0, MARK)


def test_another_entry_of_the_file_may_be_wrong():
    content = text(changed(LABEL, on={"any": "x"}), ISSUE)

    assert b'"disarmed"' in with_disarmed(content, "t", 1, MARK)


@given(
    at=st.text(st.characters(exclude_categories=["Cs"])),
    job=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)
def test_whatever_the_mark_says_only_it_is_added(at, job):
    marked = with_disarmed(WRITTEN, "t", 1, Disarmed(at, job))

    written = json.loads(marked)["triggers"][1]["on"].pop("disarmed")
    assert written == ({"at": at} if job is None else {"at": at, "jobId": job})
    assert without_disarmed(marked, "t", 1) == WRITTEN
