"""A file that must be this user's own."""

import os

import pytest

from pidispatch.errors import ConfigurationRefused
from pidispatch.files.reading import READ_LIMIT, read_own


def test_a_file_of_ours_is_read_and_a_missing_one_is_none(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * (READ_LIMIT + 9))

    assert len(read_own(tmp_path / "a")) == READ_LIMIT
    assert read_own(tmp_path / "none") is None
    assert read_own(tmp_path / "no" / "folder") is None


@pytest.mark.parametrize("fault", ["link", "fifo", "folder", "writable", "foreign"])
def test_what_somebody_else_could_have_put_there_is_refused(tmp_path, fault, monkeypatch):
    path = tmp_path / "a"
    if fault == "link":
        (tmp_path / "real").write_text("{}")
        path.symlink_to(tmp_path / "real")
    elif fault == "fifo":
        os.mkfifo(path)
    elif fault == "folder":
        path.mkdir()
    else:
        path.write_text("{}")
        path.chmod(0o666 if fault == "writable" else 0o600)
    if fault == "foreign":
        monkeypatch.setattr("os.geteuid", lambda: 4321)

    with pytest.raises(ConfigurationRefused) as refusal:
        read_own(path)

    assert str(path) in str(refusal.value)
