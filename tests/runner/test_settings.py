import pytest
from runner.settings import ConfigError, parse

from tests.runner.support import ENV


def test_the_environment_of_a_box_is_understood():
    settings = parse({**ENV, "PI_MAX_TOKENS": "", "PI_EXCLUDE_TOOLS": "bash,write", "PI_FLOW": "fix it"})

    assert (settings.provider, settings.model, settings.max_turns) == ("scripted", "happy", 20)
    assert settings.max_tokens is None
    assert settings.exclude_tools == ("bash", "write")
    assert settings.gate == "/gate/s"


@pytest.mark.parametrize(
    "value", ["", "0", "05", "5x", "1.0", " 7", "-3", "+3", "1e3", "٣", "9" * 16, "1_000"]
)
@pytest.mark.parametrize("name", ["PI_MAX_TURNS", "PI_DISPATCH_DEADLINE", "PI_DISPATCH_ATTEMPT"])
def test_only_plain_positive_numbers_pass(name, value):
    with pytest.raises(ConfigError, match=name):
        parse({**ENV, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PI_PROVIDER", ""),
        ("PI_MODEL", "--help"),
        ("PI_MODEL", "a\nb"),
        ("PI_MODEL", " m"),
        ("PI_JOB_ID", ""),
        ("PI_DISPATCH_GATE", "s"),
        ("PI_EXCLUDE_TOOLS", "bash, write"),
        ("PI_EXCLUDE_TOOLS", "Bash"),
        ("PI_EXCLUDE_TOOLS", "bash,"),
    ],
)
def test_a_setting_that_is_not_exactly_right_is_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        parse({**ENV, name: value})
