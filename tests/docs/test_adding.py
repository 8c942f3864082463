"""docs/adding.md names the files that a new thing touches: adding one in just these files works.

Each test adds one to a copy of the tree, makes the pages, and compares the files that have changed with the page.
"""

import filecmp
import fnmatch
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/adding.md").read_text()
NOT_COPIED = shutil.ignore_patterns(
    ".*_cache", ".venv", ".git", ".setup", ".hypothesis", "__pycache__", "node_modules"
)


class Tree:
    """A copy of the tree."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(ROOT, root, ignore=NOT_COPIED)

    def write(self, name, text):
        (self.root / name).write_text(text)

    def add(self, name, before, text):
        """Put `text` before the one place where `before` stands; or, if that is None, at the end."""
        content = (self.root / name).read_text()
        if before is None:
            self.write(name, content + text)
            return
        assert content.count(before) == 1, (name, before)
        self.write(name, content.replace(before, text + before))

    def run(self, *arguments):
        """What this tree's Python prints."""
        path = {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=os.environ | path,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def check(self, code):
        """`code` holds in this tree."""
        self.run(
            "-c",
            f"import pidispatch\nassert pidispatch.__path__ == [{str(self.root / 'pidispatch')!r}]\n{code}",
        )

    def changed(self, below=""):
        """Files that differ from the tree, or are new."""
        here, there = self.root / below, ROOT / below
        ignored = ["__pycache__", ".venv", ".git", ".setup", *(path.name for path in there.glob(".*_cache"))]
        compared = filecmp.dircmp(there, here, ignore=ignored)
        yield from (f"{below}{name}" for name in (*compared.diff_files, *compared.right_only))
        for name in compared.common_dirs:
            yield from self.changed(f"{below}{name}/")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "tree")


def named(title):
    """The files of a section of the page, as patterns."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(\S+)` \| .+\. \|$", section, re.MULTILINE)


def assert_changed(tree, title):
    """Just the files of this section have changed, each of them."""
    tree.run("-m", "scripts.pages")
    changed, patterns = list(tree.changed()), named(title)
    assert patterns
    assert [name for name in changed if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not fnmatch.filter(changed, pattern)] == []


WORD = 'TOO_MANY_COMMITS = Word("too-many-commits", end="it made more commits than it was allowed")\n\n'


def test_a_word(tree):
    tree.add("pidispatch/domain/words.py", "WORDS: Mapping", WORD)

    assert_changed(tree, "A word")
    tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/domain/test_words.py")


PEEK = '''"""`peek`: show little of a run."""

from pidispatch.entrypoints.cli.output import AsJson, RunName, out, print_json


def peek(run: RunName, as_json: AsJson = False) -> None:
    print_json({"run": run}) if as_json else out.print(run)
'''


def test_a_reading_command(tree):
    tree.write("pidispatch/entrypoints/cli/peek.py", PEEK)
    tree.add("pidispatch/entrypoints/cli/commands.py", '    "prices": (', '    "peek": ("peek", "peek"),\n')
    text = '    "peek": """\nShow little of a run.\n\nExit code: 0.\n""",\n'
    tree.add("pidispatch/entrypoints/cli/manual.py", '    "prices": """\n', text)

    assert_changed(tree, "A reading command")
    assert "Show little of a run." in tree.run("-m", "pidispatch", "--help")
    assert tree.run("-m", "pidispatch", "peek", "e642") == "e642\n"
    tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/docs/test_pages.py")


def test_a_setting(tree):
    field = '    most_commits: Count = Field(7, alias="PIDISPATCH_MOST_COMMITS")\n'
    tree.add("pidispatch/config/settings.py", "    wait_max: Milliseconds", field)
    tree.add(".env.example", "# PI_WAIT_MAX_MS=", "# PIDISPATCH_MOST_COMMITS=7\n")
    tree.add(
        "docs/configuration.md",
        "| `PI_WAIT_MAX_MS`",
        "| `PIDISPATCH_MOST_COMMITS` | `7` | Commits of a run |\n",
    )

    assert_changed(tree, "A setting")
    tree.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/config/test_documentation.py")


def revise(tree, what, *, up, down):
    """A migration behind the newest."""
    newest = max(path.name[:4] for path in (ROOT / "migrations/versions").glob("*.py"))
    head = f'"""{what}.\n\nRevision ID: 9999\nRevises: {newest}\n"""\n\nimport sqlalchemy as sa\nfrom alembic import op\n\n'
    chain = f'revision = "9999"\ndown_revision = "{newest}"\nbranch_labels = None\ndepends_on = None\n\n\n'
    steps = f"def upgrade() -> None:\n    {up}\n\n\ndef downgrade() -> None:\n    {down}\n"
    tree.write("migrations/versions/9999_made_up.py", head + chain + steps)


def test_a_limit_or_bound_of_a_run(tree):
    revise(
        tree,
        "a run has at most so many commits",
        up='op.add_column("runs", sa.Column("max_commits", sa.Integer()))',
        down='op.drop_column("runs", "max_commits")',
    )
    tree.add(
        "pidispatch/domain/runs/ask.py",
        "    skills_dir: bytes | None",
        "    max_commits: int | None = None\n",
    )
    column = '    Column("max_commits", Integer, comment="Commits at most"),\n'
    tree.add("pidispatch/store/tables/runs.py", '    Column("excluded_tools"', column)
    triggers = "pidispatch/domain/triggers/grammar/"
    read = '    draft.ask["max_commits"] = 3 if draft.run.given("maxCommits") else None\n'
    tree.add(f"{triggers}run.py", '    draft.ask["excluded_tools"] = ', read)
    tree.add(
        f"{triggers}printing.py",
        '            "excludeTools": ',
        '            "maxCommits": ask.max_commits,\n',
    )
    option = '    max_commits: Annotated[int | None, typer.Option(min=1, help="Most commits.")] = None,\n'
    tree.add("pidispatch/entrypoints/cli/run.py", "    exclude_tools: Annotated[", option)
    tree.add(
        "pidispatch/entrypoints/cli/run.py",
        "            excluded_tools=",
        "            max_commits=max_commits,\n",
    )
    told = '            "PI_MAX_COMMITS": None if ask.max_commits is None else str(ask.max_commits),\n'
    tree.add("pidispatch/flows/launch.py", '            "PI_EXCLUDE_TOOLS": ', told)
    tree.add("pidispatch/domain/words.py", "WORDS: Mapping", WORD)
    tree.add("docs/operator-files.md", None, "\n`maxCommits`: commits at most.\n")

    assert_changed(tree, "A limit or bound of a run")
    assert "--max-commits" in tree.run("-m", "pidispatch", "run", "--help")
    tree.check(BOUND)


BOUND = """
import json
from alembic.script import ScriptDirectory
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.printing import write_triggers
from pidispatch.store.tables import METADATA
from pidispatch.store.runs.submissions import ASK_SQL

assert "max_commits" in METADATA.tables["runs"].columns
assert "max_commits" in ASK_SQL
assert Ask(max_commits=3).of_its_own() == (("max_commits", 3),)
assert ScriptDirectory("migrations").get_heads() == ["9999"]
entry = {"on": {"type": "cron", "id": "nightly", "pattern": "0 2 * * *"},
         "run": {"kind": "local", "folder": "/srv/web", "flow": "tidy", "task": "x", "maxCommits": 3}}
read = parse_triggers(json.dumps({"triggers": [entry]}).encode(), "triggers.json")
assert read.entries[0].work.ask.max_commits == 3, read
assert "maxCommits" in str(write_triggers(read))
"""

MADE_UP = '''"""A made-up API: as chat completions, at a path of its own."""

from dataclasses import replace

from pidispatch.domain.providers import wireapis
from pidispatch.gateway.wire.completions import COMPLETIONS

MADE_UP = replace(COMPLETIONS, name=wireapis.MADE_UP, path="/made-up")
'''

API = """
from pidispatch.config.providers import provider_api
from pidispatch.domain.box.agentfiles import agent_files
from pidispatch.domain.providers.wireapis import WIRE_APIS
from pidispatch.gateway.calls.envelope import read_envelope
from pidispatch.gateway.providers import Providers
from pidispatch.gateway.wire.apis import BY_NAME, BY_PATH

assert provider_api("made-up") == "made-up"
assert set(BY_NAME) == set(WIRE_APIS)
assert BY_PATH["/made-up"].name == "made-up"
asked = Providers(keys={}, upstreams={"mine": "http://mine.example"}, apis={"mine": "made-up"}).find("mine")
assert asked.url == "http://mine.example/made-up"
assert read_envelope(b'{"model":"m","messages":[]}', "made-up").model == "m"
assert b'"made-up"' in agent_files("mine", "m", "made-up", known_to_pi=False)["models.json"]
"""


def test_a_wire_api(tree):
    names = "pidispatch/domain/providers/wireapis.py"
    tree.add(names, "# What of its path", 'MADE_UP = "made-up"\n')
    tree.write(names, (tree.root / names).read_text().replace("= {OPENAI: ", '= {MADE_UP: "", OPENAI: '))
    tree.write("pidispatch/gateway/wire/made_up.py", MADE_UP)
    apis = "pidispatch/gateway/wire/apis.py"
    tree.add(
        apis,
        "from pidispatch.gateway.wire.responses",
        "from pidispatch.gateway.wire.made_up import MADE_UP\n",
    )
    tree.write(apis, (tree.root / apis).read_text().replace("(ANTHROPIC, ", "(MADE_UP, ANTHROPIC, "))

    assert_changed(tree, "A wire API")
    tree.check(API)


FORGE = '''"""A forge of no one."""

from pidispatch.domain.forges.forge import Forge

MADE_UP = Forge(
    name="made-up",
    pull_request_actions=("asked", "shut"),
    issue_actions=("shut",),
    closed="shut",
    commented=frozenset({"said"}),
    token_names=("MADE_UP_TOKEN",),
    hosts=("forge.made-up.example",),
)
'''
FORGE_WORKS = """
from pidispatch.domain.box.names import is_reserved_for_secrets
from pidispatch.domain.egress.allowlist import PRESETS
from pidispatch.domain.limits.scopes import named
from pidispatch.domain.triggers.eventfile import parse_event
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.matching import match

entry = b'{"on": {"type": "comment", "phrase": "@pi"}, "run": {"kind": "made-up", "flow": "fix"}}'
event = b'{"forge": "made-up", "route": "comment", "action": "said", "repo": "acme/web", "number": 7, "sender": 3,'
event += b' "comment": "@pi please", "allowed": true}'
found = match(parse_event(event, "e"), parse_triggers(b'{"triggers": [' + entry + b']}', "t"))

assert found.subject().scope == "made-up:acme/web", found
assert named("made-up:acme/web").subject == "acme/web"
assert PRESETS["made-up"] == ("forge.made-up.example",)
assert is_reserved_for_secrets("MADE_UP_TOKEN")
"""


def test_a_forge(tree):
    names = "'local', 'github', 'gitlab', 'forgejo', 'azure'"
    revise(
        tree,
        "runs may be of one more forge",
        up='op.drop_constraint("runs_kind", "runs")\n    '
        f'op.create_check_constraint("runs_kind", "runs", "kind IN ({names}, \'made-up\')")',
        down='op.drop_constraint("runs_kind", "runs")\n    '
        f'op.create_check_constraint("runs_kind", "runs", "kind IN ({names})")',
    )
    tree.write("pidispatch/domain/forges/made_up.py", FORGE)
    table = "pidispatch/domain/forges/table.py"
    tree.add(table, "        AZURE,\n", "        MADE_UP,\n")
    tree.add(table, "FORGES: Mapping", "from pidispatch.domain.forges.made_up import MADE_UP\n\n")

    assert_changed(tree, "A forge")
    tree.check(FORGE_WORKS)


@pytest.mark.parametrize("title", ["A runtime", "A page of a web interface", "A limit of the installation"])
def test_what_has_no_list_of_files_says_where_it_stands(title):
    assert f"\n## {title}\n" in PAGE
    assert named(title) == []


def test_each_file_that_is_named_is_there():
    missing = {
        name
        for name in re.findall(r"`((?:pidispatch|docs|migrations|scripts)/\S+)`", PAGE)
        if not list(ROOT.glob(name))
    }

    assert missing == {
        "pidispatch/domain/forges/made_up.py",
        "pidispatch/entrypoints/cli/peek.py",
        "pidispatch/gateway/wire/made_up.py",
    }
