"""Read the engine's answers without guessing."""

from datetime import UTC, datetime

import pytest

from pidispatch.runtime.watch import box_state, engine_time


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-02-03T04:05:06.123456789Z", datetime(2026, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)),
        ("2026-02-03T04:05:06Z", datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        ("2026-02-03T06:05:06.5+02:00", datetime(2026, 2, 3, 4, 5, 6, 500000, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("soon", None),
        (None, None),
        (7, None),
    ],
)
def test_the_engines_times_are_aware_utc_or_none(text, time):
    assert engine_time(text) == time


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ({"Status": "exited", "ExitCode": 3}, 3),
        ({"Status": "exited", "ExitCode": 0}, 0),
        ({"Status": "exited"}, None),
        ({"Status": "exited", "ExitCode": "0"}, None),
        ({"Status": "running", "ExitCode": 0}, None),
        ({"Status": "created", "ExitCode": 127, "Error": "no such file"}, None),
        (None, None),
    ],
)
def test_an_exit_code_that_cannot_be_read_is_none_and_never_success(state, code):
    assert box_state({"Id": "f" * 64, "State": state}).exit_code == code
