"""The `.env` file: how it is read, and how its faults are told."""

import os

import pytest

from pidispatch.config import Place, Source, effective_environment, load
from pidispatch.config.sources import DOTENV_LIMIT
from pidispatch.errors import ConfigurationRefused

PERSON = Place(uid=1000, user_home="/home/ada", host_name="desk")


@pytest.fixture
def dotenv(tmp_path):
    return tmp_path / ".env"


def load_file(dotenv, **environ):
    return load(environ, dotenv, place=PERSON)


def problems(dotenv, **environ):
    with pytest.raises(ConfigurationRefused) as refusal:
        load_file(dotenv, **environ)
    return refusal.value.problems


def test_a_missing_file_sets_nothing(dotenv):
    assert load_file(dotenv) == load({}, None, place=PERSON)


def test_quotes_comments_and_export_are_understood(dotenv):
    dotenv.write_bytes(
        b"\xef\xbb\xbfPI_CONCURRENCY=4\r\n# PI_DAILY_CAP=1\nexport PI_MODEL='my-model' # mine\n\n"
        b'PI_LOGS_DIR="/var/log/\\x"\nPI_MAX_TURNS=5 # five\nNODE_ENV\nPI_MAX_TURNS=6\n'
    )

    found = load_file(dotenv)

    assert (found.concurrency, found.daily_cap, found.model, found.max_turns) == (4, 25, "my-model", 6)


def test_the_environment_wins_even_when_it_is_empty(dotenv):
    dotenv.write_text("PI_DAILY_CAP=5\nPI_WEEKLY_CAP=5\n")

    found = load_file(dotenv, PI_DAILY_CAP="7", PI_WEEKLY_CAP="")

    assert (found.daily_cap, found.weekly_cap) == (7, None)
    assert found.sources["PI_DAILY_CAP"] == Source.ENVIRONMENT


def test_a_dollar_sign_in_a_password_is_left_alone(dotenv, monkeypatch):
    monkeypatch.setenv("HOME", "/leaked")
    dotenv.write_text("DATABASE_URL=postgresql://u:a${HOME}b@db/r\n")

    assert "a${HOME}b" in load_file(dotenv).database_url.get_secret_value()


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        (b"A=1\nPI_MODEL='open\nB=2\n", 2, "cannot be read; want NAME=value, with any quote closed"),
        (b"A=1\n\n= 2\n", 3, "cannot be read; want NAME=value, with any quote closed"),
        (b"A=1\nPI_DAILY_CAP\n", 2, "PI_DAILY_CAP has no value; want PI_DAILY_CAP=value"),
        (b"A=1\nB=\xff\n", 2, "is not UTF-8; want a file of NAME=value lines in UTF-8"),
        (b"A=1\nPI_MODEL=a\0b\n", 2, "holds a NUL character; want NAME=value"),
    ],
)
def test_a_bad_line_is_named_by_file_and_number(dotenv, content, line, problem):
    dotenv.write_bytes(content)

    assert problems(dotenv) == (f"{dotenv}:{line}: {problem}",)


def test_a_bad_line_does_not_hide_the_other_problems(dotenv):
    dotenv.write_text("= 1\nPI_DAILY_CAP=05\n")

    found = problems(dotenv, PI_MODEL="")

    assert [problem.split()[0] for problem in found] == [f"{dotenv}:1:", "PI_DAILY_CAP", "PI_MODEL"]


def test_a_file_that_is_no_file_is_refused(dotenv):
    dotenv.mkdir()
    assert problems(dotenv)[0].startswith(f"{dotenv}: cannot be read: ")

    dotenv.rmdir()
    os.mkfifo(dotenv)
    assert problems(dotenv) == (f"{dotenv}: cannot be read: it is not a regular file",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_refused(dotenv):
    dotenv.write_text("PI_MODEL=m\n")
    dotenv.chmod(0)

    assert problems(dotenv) == (f"{dotenv}: cannot be read: Permission denied",)


def test_a_huge_file_is_refused(dotenv):
    dotenv.write_bytes(b"#" * (DOTENV_LIMIT + 1))

    assert problems(dotenv) == (
        f"{dotenv}: is larger than {DOTENV_LIMIT} bytes; want a file of NAME=value lines",
    )


def test_the_gateway_finds_its_keys_in_the_file_too(dotenv):
    dotenv.write_text("OPENAI_API_KEY=from-file\nA=1\n")

    assert effective_environment({"A": "2"}, dotenv) == {"OPENAI_API_KEY": "from-file", "A": "2"}

    dotenv.write_text("= 1\n")
    with pytest.raises(ConfigurationRefused):
        effective_environment({}, dotenv)
