"""Read the engine's answers without guessing."""

import json
from datetime import UTC, datetime

import pytest

from pidispatch.errors import EngineUnavailable
from pidispatch.runtime.image import DockerImages
from pidispatch.runtime.watch import DockerWatch, box_state, engine_time
from tests.support.engines import scripted_engine


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


def test_a_box_never_ends_before_it_starts():
    times = {"StartedAt": "2026-02-03T04:05:06.003Z", "FinishedAt": "2026-02-03T04:05:06Z"}

    state = box_state({"Id": "f" * 64, "State": {"Status": "exited", "ExitCode": 0} | times})

    assert state.finished_at == state.started_at


def test_a_box_that_runs_has_no_end():
    times = {"StartedAt": "2026-02-03T04:05:06Z", "FinishedAt": "2026-02-03T04:00:00Z"}

    assert box_state({"Id": "f" * 64, "State": {"Status": "running"} | times}).finished_at is None


def test_the_end_of_the_stream_of_deaths_is_no_silence(tmp_path):
    deaths = [json.dumps({"Action": "die", "Actor": {"ID": name}}).encode() + b"\n" for name in ("a", "b")]

    with scripted_engine(tmp_path / "s", {"GET /events": (200, deaths)}) as engine:
        told = DockerWatch(engine).deaths("0123abcd")
        heard = [next(told), next(told)]
        with pytest.raises(EngineUnavailable):
            next(told)

    assert heard == ["a", "b"]


def test_what_the_engine_is_is_asked_once_and_again_when_it_has_hung_up(tmp_path):
    answers = {"GET /events": (200, []), "GET /info": (200, {"ID": "FIRST"})}

    with scripted_engine(tmp_path / "s", answers) as engine:
        images, watch = DockerImages(engine), DockerWatch(engine)
        seen = [images.engine_id()]
        answers["GET /info"] = (200, {"ID": "SECOND"})
        seen.append(images.engine_id())
        with pytest.raises(EngineUnavailable):
            next(watch.deaths("0123abcd"))
        seen.append(images.engine_id())

    assert seen == ["FIRST", "FIRST", "SECOND"]
