"""What a provider's answer says of its being busy."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.providers.busyanswer import STATUSES, asked_pause, busy
from pidispatch.domain.providers.pressure import Busy

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
UNIX = int(NOON.timestamp())
RATE_LIMIT = json.dumps({"error": {"type": "rate_limit_error", "message": "slow down"}}).encode()


def an_error(**words):
    return json.dumps({"error": words}).encode()


@pytest.mark.parametrize(
    ("status", "fields", "body", "said"),
    [
        (429, {}, RATE_LIMIT, Busy()),
        (429, {}, b"not json", Busy()),
        (429, {"retry-after": "2"}, RATE_LIMIT, Busy(2.0)),
        (529, {}, an_error(type="overloaded_error"), Busy()),
        (503, {"retry-after": "20"}, b"", Busy(20.0)),
        (503, {}, b"", None),
        (500, {"retry-after": "20"}, b"", None),
        (502, {}, b"", None),
        (200, {"retry-after": "20"}, b"", None),
        (402, {}, b"", None),
        (429, {}, an_error(code="insufficient_quota", type="insufficient_quota", message="x"), None),
        (429, {}, an_error(code=None, type="insufficient_quota"), None),
        (429, {}, an_error(code="rate_limit_exceeded", message="Request too large for gpt-4o: Limit 30000"), None),
    ],
)  # fmt: skip
def test_which_answers_mean_that_waiting_helps(status, fields, body, said):
    assert busy(status, fields, body, NOON) == said


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Mon, 04 May 2026 12:01:00 GMT"}, 60.0),
        ({"retry-after": "Mon, 04 May 2026 11:00:00 GMT"}, 0.0),
        # The provider's own clock is the one its date is of.
        ({"retry-after": "Mon, 04 May 2026 12:01:00 GMT", "date": "Mon, 04 May 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after-ms": "1250", "retry-after": "9"}, 1.25),
        ({"retry-after": "5", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "60s"}, 5.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "2m59.56s"}, 179.56),
        ({"x-ratelimit-remaining-tokens": "7", "x-ratelimit-reset-tokens": "6m0s"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(UNIX + 40)}, 40.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str((UNIX + 40) * 1000)}, 40.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "40"}, 40.0),
        ({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-05-04T12:00:10Z",
          "anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2026-05-04T12:00:50Z"}, 50.0),
        ({"anthropic-ratelimit-requests-remaining": "9", "anthropic-ratelimit-requests-reset": "2026-05-04T12:00:10Z"}, None),
        ({"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": str(UNIX + 7200)}, 7200.0),
        ({"anthropic-ratelimit-unified-status": "allowed", "anthropic-ratelimit-unified-reset": str(UNIX + 7200)}, None),
    ],
)  # fmt: skip
def test_for_how_long_a_provider_asks_to_wait(fields, seconds):
    found = asked_pause(fields, NOON)

    assert found == (None if seconds is None else pytest.approx(seconds))


NAMES = [
    "date", "retry-after", "retry-after-ms", "x-ratelimit-remaining", "x-ratelimit-reset",
    "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-unified-status", "anthropic-ratelimit-unified-reset",
]  # fmt: skip
VALUES = st.sampled_from(["0", "rejected"]) | st.text(max_size=40) | st.from_regex(
    r"[0-9]{1,5}-[0-9]{2}-[0-9]{2}T[0-9:]{5,8}(Z|[+-][0-9:]{2,5})?|[0-9]{1,20}(d|h|m|s|ms)?"
    r"|[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{1,5} [0-9:]{8} (GMT|[+-][0-9]{4})", fullmatch=True
)  # fmt: skip


@settings(deadline=None)
@given(
    st.sampled_from(sorted(STATUSES)),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.sampled_from(["error", "code", "type", "message"]), inner)).map(
        lambda value: json.dumps(value).encode()
    ),
)  # fmt: skip
def test_whatever_is_answered_is_read_without_a_fault(status, fields, body):
    said = busy(status, fields, body, NOON)

    assert said is None or said.pause is None or said.pause >= 0
