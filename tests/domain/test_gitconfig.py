"""The grammar of git's configuration, as far as it is read."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.box.gitconfig import settings_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[core]\n\tautocrlf = true\n", [("core.autocrlf", "true")]),
        ("[CORE]\nAutoCRLF=input # why\n", [("core.autocrlf", "input")]),
        ('[core] excludesFile = "~/a b;c"  ; a comment\n', [("core.excludesfile", "~/a b;c")]),
        ("[core]\n excludesfile = a\\\n b  \n", [("core.excludesfile", "a b")]),
        ('[include]\npath = "one\\"two"\n', [("include.path", 'one"two')]),
        ('[filter "A.b"]\nclean = cat\n', [("filter.A.b.clean", "cat")]),
        ("[core]\nbare\n[x]\n", [("core.bare", "true")]),
        ("\ufeff[core]\neol=lf", [("core.eol", "lf")]),
        ("[core]\neol = lf\nnot a setting: at all\neol = crlf\n", [("core.eol", "lf")]),
        ("eol = lf\n", []),
    ],
)
def test_settings_are_read_in_order(text, found):
    assert settings_of(text.encode()) == found


@pytest.mark.parametrize(
    "value", ["plain", '"a # b" ; c', "x \\\\ y", "a\\tb", '" lead" and  trail   ', "a\\\n  b"]
)
def test_a_value_is_read_as_git_reads_it(tmp_path, value):
    file = tmp_path / "config"
    file.write_text(f"[core]\n\tpager = {value}\n")
    asked = ["git", "config", "--file", file, "-z", "--get", "core.pager"]

    git = subprocess.run(asked, check=True, capture_output=True).stdout[:-1].decode()

    assert settings_of(file.read_bytes()) == [("core.pager", git)]


@given(st.one_of(st.binary(max_size=200), st.text(alphabet='[]"\\=#; \nacore.', max_size=80).map(str.encode)))
def test_no_bytes_break_the_reader(content):
    for name, value in settings_of(content):
        assert "." in name
        assert isinstance(value, str)
