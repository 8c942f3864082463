"""The table of commands, the version, and what a shell completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pidispatch import __version__
from pidispatch.entrypoints.cli import manual
from pidispatch.entrypoints.cli.commands import COMMANDS, load

ROOT = Path(__file__).parents[2]


def test_the_version_is_one_line_and_ends_0(command):
    said = command("--version")

    assert (said.code, said.out, said.err) == (0, f"pidispatch {__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_line_of_the_table_leads_to_a_command_of_that_name_and_help(name):
    found = load(name)

    assert (found.name, found.help) == (name, manual.text(name))


def test_help_lists_every_command(command):
    said = command("--help")

    assert said.code == 0
    assert [name for name in COMMANDS if f" {name} " not in said.out] == []


def test_a_slip_of_the_pen_is_told_the_command_that_is_near(command):
    said = command("statsu")

    assert said.code == 2
    assert "'status'" in said.err


def completed(*words):
    """What bash would be offered for the last of the words."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "_PIDISPATCH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    program = "import sys; sys.argv[0] = 'pidispatch'; from pidispatch.entrypoints.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("pidispatch", "sta"), ["status"]),
        (("pidispatch", "triggers", "re"), ["rearm"]),
        (("pidispatch", "runs", "--st"), ["--state"]),
        (("pidispatch", "egress", ""), ["check"]),
    ],
    ids=" ".join,
)
def test_a_shell_is_offered_commands_and_options(words, offered):
    assert completed(*words) == offered
