"""The allowlist in force follows its file, and a bad edit changes nothing."""

import pytest

from pidispatch.app.egress import allowlist_in_force
from pidispatch.config import load
from pidispatch.domain.egress.allowlist import Reason
from pidispatch.domain.egress.hostname import read_target
from pidispatch.errors import ConfigurationRefused


@pytest.fixture
def home(tmp_path):
    return tmp_path


def in_force(home, **environ):
    return allowlist_in_force(load({"PIDISPATCH_HOME": str(home), **environ}, None))


def reason(allowed, host="example.com:443"):
    return allowed().judge(read_target(host)).reason


def test_a_file_that_comes_changes_and_goes_is_followed(home):
    allowed = in_force(home)
    file = home / "egress-allowlist.conf"

    assert reason(allowed) is Reason.NOT_LISTED
    file.write_text("example.com\n")
    assert reason(allowed) is Reason.LISTED
    file.write_text("*\n")
    assert reason(allowed) is Reason.LISTED
    file.write_text("example.org\n")
    assert reason(allowed) is Reason.NOT_LISTED
    file.unlink()
    assert reason(allowed, "example.org:443") is Reason.NOT_LISTED


def test_a_file_that_was_named_must_be_there_and_right(home):
    with pytest.raises(ConfigurationRefused, match="does not exist"):
        in_force(home, PIDISPATCH_EGRESS_FILE=str(home / "hosts"))
    (home / "hosts").write_text("https://example.com")
    with pytest.raises(ConfigurationRefused, match="hosts:1: "):
        in_force(home, PIDISPATCH_EGRESS_FILE=str(home / "hosts"))


def test_with_egress_off_the_file_does_not_matter(home):
    (home / "egress-allowlist.conf").write_text("*\n")
    allowed = in_force(home, PI_EGRESS="0", PIDISPATCH_EGRESS_OFF_BECAUSE="a lab")

    assert reason(allowed) is Reason.OPEN
    assert reason(allowed, "127.0.0.1:443") is Reason.PRIVATE_ADDRESS
