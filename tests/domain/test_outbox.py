"""The requests in an outbox: every check in its order, and any bytes at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain import words
from pidispatch.domain.outbox import Letter, Refusal, Wish, may_be_asked_for, read_request, request_names


def a_request(**changes):
    return json.dumps({"flow": "review", "task": "look", **changes}).encode()


def read(content, depth=1, depth_max=1):
    return read_request(Letter("1", content), depth=depth, depth_max=depth_max)


def padded(size):
    return a_request() + b" " * (size - len(a_request()))


ACCEPTED = [
    (a_request(), ("review", b"look")),
    (a_request(flow="a"), ("a", b"look")),
    (a_request(flow="a" * 64), ("a" * 64, b"look")),
    (a_request(flow="a-b_c9"), ("a-b_c9", b"look")),
    (a_request(task=""), ("review", b"")),
    (a_request(task="nul \0 and ünï"), ("review", "nul \0 and ünï".encode())),
    (b'{"flow": "review", "task": "\\ud800"}', ("review", "\ufffd".encode())),
    (
        a_request(folder="/etc", depth=-5, image="evil", provider="x", secrets={}, model="m"),
        ("review", b"look"),
    ),
    (b'{"flow": "no", "flow": "review", "task": "look"}', ("review", b"look")),
    (padded(4096), ("review", b"look")),
]


@pytest.mark.parametrize(("content", "wanted"), ACCEPTED)
def test_a_request_is_its_flow_and_its_task_and_nothing_else(content, wanted):
    assert read(content) == Wish("1", *wanted)


REFUSED = [
    (padded(4097), words.CHAIN_OVERSIZE),
    (b"x" * 4097, words.CHAIN_OVERSIZE),
    (b"", words.CHAIN_PARSE_ERROR),
    (b"{", words.CHAIN_PARSE_ERROR),
    (b"\xff\xfe{}", words.CHAIN_PARSE_ERROR),
    (b"\xef\xbb\xbf" + a_request(), words.CHAIN_PARSE_ERROR),
    (b"[]", words.CHAIN_PARSE_ERROR),
    (b'"text"', words.CHAIN_PARSE_ERROR),
    (b"null", words.CHAIN_PARSE_ERROR),
    (b"1", words.CHAIN_PARSE_ERROR),
    (b"[" * 4096, words.CHAIN_PARSE_ERROR),
    (b'{"a":' * 800, words.CHAIN_PARSE_ERROR),
    (b"1" * 4096, words.CHAIN_PARSE_ERROR),
    (b'{"flow": "review", "task": "look", "n": NaN}', words.CHAIN_PARSE_ERROR),
    (a_request() + a_request(), words.CHAIN_PARSE_ERROR),
    (a_request(command="x"), words.CHAIN_COMMAND_REFUSED),
    (a_request(command=None), words.CHAIN_COMMAND_REFUSED),
    (b'{"command": "/x"}', words.CHAIN_COMMAND_REFUSED),
    (b"{}", words.CHAIN_BAD_FLOW_NAME),
    *(
        (a_request(flow=flow), words.CHAIN_BAD_FLOW_NAME)
        for flow in (None, 1, [], {}, "", "A", "-a", "a-", "a/b", "..")
    ),
    *(
        (a_request(flow=flow), words.CHAIN_BAD_FLOW_NAME)
        for flow in ("a" * 65, "a\n", "a b", "é", "a.b", "٣")
    ),
    (b'{"flow": "review"}', words.CHAIN_BAD_TASK),
    *((a_request(task=task), words.CHAIN_BAD_TASK) for task in (None, 1, ["look"], {"a": 1}, True)),
]


@pytest.mark.parametrize(("content", "word"), REFUSED)
def test_each_fault_has_its_word(content, word):
    assert read(content) == Refusal("1", word)


IN_ORDER = [
    (b"x" * 5000, words.CHAIN_OVERSIZE),
    (b"x", words.CHAIN_PARSE_ERROR),
    (b'{"command": 1, "flow": "A", "task": 1}', words.CHAIN_COMMAND_REFUSED),
    (b'{"flow": "A", "task": 1}', words.CHAIN_BAD_FLOW_NAME),
    (b'{"flow": "a", "task": 1}', words.CHAIN_BAD_TASK),
    (b'{"flow": "a", "task": ""}', words.CHAIN_DEPTH_CAP),
]


@pytest.mark.parametrize(("content", "word"), IN_ORDER)
def test_of_several_faults_the_first_in_order_is_told(content, word):
    assert read(content, depth=2) == Refusal("1", word)


def test_what_could_not_be_read_keeps_its_word():
    assert read_request(Letter("9", refused=words.CHAIN_COUNT_CAP), depth=9, depth_max=1) == Refusal(
        "9", words.CHAIN_COUNT_CAP
    )


@pytest.mark.parametrize(
    ("depth", "most", "passes"), [(1, 1, True), (2, 2, True), (2, 1, False), (1, 0, False)]
)
def test_a_chain_goes_as_deep_as_it_may(depth, most, passes):
    assert isinstance(read(a_request(), depth, most), Wish) is passes


def test_requests_are_taken_by_number_and_other_names_ignored():
    names = ["request-10.json", "request-9.json", "request-1.json.bak", "xrequest-1.json", "request-.json"]
    names += ["request--1.json", "request-1.JSON", "request-1.json\n", "request-٣.json", "request-0002.json"]
    names += ["request-" + "9" * 240 + ".json", "", "request-1\udcff.json"]

    numbers = [number for number, _ in request_names(names)]

    assert numbers == ["0002", "9", "10", "9" * 240]


def test_two_names_of_one_number_have_an_order():
    assert [name for _, name in request_names(["request-1.json", "request-01.json"])] == [
        "request-01.json",
        "request-1.json",
    ]


@given(st.binary(max_size=5000))
def test_no_bytes_raise(content):
    assert isinstance(read(content), Wish | Refusal)


@given(st.binary(max_size=2000))
def test_no_skill_raises(content):
    may_be_asked_for(content)
    assert not may_be_asked_for(b"x" + content)


ALLOWED = [
    b"---\nai-trigger: allow\n---\n",
    b"---\nname: x\nai-trigger: allow\ndescription: y\n---\ntext",
    b'---\nai-trigger: "allow"\n---\n',
    b"---\nai-trigger:allow\n---\n",
    b"\xef\xbb\xbf---\r\nai-trigger: allow\r\n---\r\n",
    b"---  \nai-trigger:  allow  \n--- \n",
    b"---\nname: \xff\nai-trigger: allow\n---\n",
    b"---\nai-trigger: allow\n---",
]
DENIED = [
    b"",
    b"ai-trigger: allow\n",
    b"\n---\nai-trigger: allow\n---\n",
    b"---\nai-trigger: allow\n",
    b"---\nname: x\n---\nai-trigger: allow\n",
    b"---\nname: x\n---\n---\nai-trigger: allow\n---\n",
    b"---\nai-trigger: deny\n---\n",
    b"---\nai-trigger: Allow\n---\n",
    b"---\nai-trigger: allowed\n---\n",
    b"---\nai-trigger: 'allow'\n---\n",
    b'---\nai-trigger: "allow\n---\n',
    b"---\n  ai-trigger: allow\n---\n",
    b"---\n# ai-trigger: allow\n---\n",
    b"---\nxai-trigger: allow\n---\n",
    b"---\nai-trigger: allow # yes\n---\n",
    b"---\nai-trigger: deny\nai-trigger: allow\n---\n",
    b"----\nai-trigger: allow\n---\n",
]


@pytest.mark.parametrize("skill", ALLOWED)
def test_a_skill_may_be_asked_for_when_its_front_matter_says_so(skill):
    assert may_be_asked_for(skill)


@pytest.mark.parametrize("skill", DENIED)
def test_anything_else_is_no(skill):
    assert not may_be_asked_for(skill)
