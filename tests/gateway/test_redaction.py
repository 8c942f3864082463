"""What the gateway keeps is masked, and who else keeps something can ask it to."""

import json

import pytest

from pidispatch.domain.redaction import MASK, MOST_TEXT
from pidispatch.errors import GatewayUnavailable
from tests.gateway.parts import KEY, chat


def test_a_report_is_kept_without_the_key(make_house):
    house = make_house({"scripted": "http://127.0.0.1:1/v1"})
    report = {"v": 1, "attempt": 1, "message": f"I found {KEY[:12]} and {KEY.encode().hex()}.", "reason": KEY}

    assert house.client().ask("POST", "/report", report)[0] == 204

    kept, _ = house.tickets.reports[7, 1]
    assert (kept["message"], kept["reason"]) == (f"I found {KEY[:12]} and {MASK}.", MASK)
    assert KEY not in json.dumps(kept)


def test_a_call_is_written_down_without_the_key_in_its_models_name(make_house):
    house = make_house({"scripted": "http://127.0.0.1:1/v1"})

    house.client().ask("POST", "/v1/chat/completions", chat(KEY))

    assert [call.model for call in house.ledger.calls] == [MASK]


def test_another_process_has_its_bytes_masked(make_house):
    doors = make_house({"scripted": "http://127.0.0.1:1/v1"}).doors

    assert doors.redact(b"\xff it is " + KEY.encode()) == b"\xff it is " + MASK.encode()
    assert doors.redact(b"") == b""
    assert doors.redact(b"no secret\r\nat all\n") == b"no secret\r\nat all\n"


def test_many_lines_are_masked_in_parts_and_come_back_in_order(make_house):
    doors = make_house({"scripted": "http://127.0.0.1:1/v1"}).doors
    lines = [b'{"text": "%d %b"}\n' % (number, KEY.encode()) for number in range(20_000)]

    masked = doors.redact(b"".join(lines))

    assert masked == b"".join(b'{"text": "%d %b"}\n' % (number, MASK.encode()) for number in range(20_000))


def test_a_line_beyond_the_bound_is_refused(make_house):
    doors = make_house({"scripted": "http://127.0.0.1:1/v1"}).doors

    with pytest.raises(GatewayUnavailable):
        doors.redact(b"x" * (MOST_TEXT + 1))


def test_without_a_gateway_nothing_is_masked_and_that_is_said(make_house):
    house = make_house()
    house.gateway._control.close()

    with pytest.raises(GatewayUnavailable):
        house.doors.redact(b"anything")
