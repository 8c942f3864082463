"""The rules of the package map, so that `pytest` alone guards them; `pyproject.toml` holds the import contracts."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

import pidispatch
from scripts.rooms_picture import rooms

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pidispatch"

READS_THE_ENVIRONMENT = {
    "pidispatch/actors.py": "the number of the parent's pipe, before any setting is read",
    "pidispatch/entrypoints/gateway.py": "likewise",
    "pidispatch/entrypoints/cli/demo.py": "leaves the operator's own settings behind",
}
ACTS_AT_IMPORT = {
    "pidispatch/actors.py": "dramatiq loads it to get a running worker",
    "pidispatch/entrypoints/cli/triggers.py": "registers its commands on the Typer application it has just made",
}
USED_BY_EVERY_ROW = {"structlog"}
PURE = {
    "array", "base64", "collections", "cronsim", "dataclasses", "datetime", "decimal", "email.utils", "enum", "fractions", "functools",
    "hashlib", "ipaddress", "itertools", "json", "math", "os.path", "re", "string", "sys", "types", "typing", "unicodedata", "zoneinfo",
}  # fmt: skip
CLOCKS = {"now", "utcnow", "today"}


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, ast.Module]]:
    """The name from the root, and the tree, of every module below `folder`."""
    for path in sorted(folder.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_bytes())


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported from elsewhere, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module or ""


def test_the_import_contracts_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    status = lint_imports(config_filename="pyproject.toml", no_cache=True, no_logo=True)

    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_every_library_has_an_owner_named_in_a_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    owned = {name for contract in contracts for name in contract.get("protected_modules", [])}
    known = owned | USED_BY_EVERY_ROW | {"pidispatch"} | set(sys.stdlib_module_names)

    strangers = {
        (path, name) for path, tree in modules() for name in imported(tree) if name.split(".")[0] not in known
    }

    assert not strangers


def test_the_domain_computes_and_does_nothing_else() -> None:
    allowed = {"pidispatch.domain", "pidispatch.errors"}

    impure = {
        (path, name)
        for path, tree in modules(PACKAGE / "domain")
        for name in imported(tree)
        if name not in PURE
        and name.split(".")[0] not in PURE
        and not any(name == row or name.startswith(f"{row}.") for row in allowed)
    }

    assert not impure


def test_time_is_an_argument_of_the_domain() -> None:
    asked = {
        (path, node.lineno)
        for path, tree in modules(PACKAGE / "domain")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS
    }

    assert not asked


def test_no_module_is_longer_than_four_hundred_lines() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_bytes().splitlines())
        for folder in (PACKAGE, ROOT / "image")
        for path in folder.rglob("*.py")
    }

    assert {name for name, lines in lengths.items() if lines > 400} == set()


def test_only_the_configuration_reads_the_environment() -> None:
    readers = {path for path, tree in modules() if _reads_the_environment(tree)}

    assert {path for path in readers if not path.startswith("pidispatch/config/")} == set(
        READS_THE_ENVIRONMENT
    )


def _reads_the_environment(tree: ast.Module) -> bool:
    names = {"environ", "environb", "getenv", "getenvb"}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in names and isinstance(node.value, ast.Name))
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names & {a.name for a in node.names})
        for node in ast.walk(tree)
    )


def test_no_module_but_actors_has_statements_that_act() -> None:
    acting = {path for path, tree in modules() if any(_acts(statement) for statement in tree.body)}

    assert acting == set(ACTS_AT_IMPORT)


def _acts(statement: ast.stmt) -> bool:
    """A call whose result nobody keeps is made for its effect; so is a loop or a `with`."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.If(test=test, body=body, orelse=orelse):
            is_main = ast.unparse(test) == "__name__ == '__main__'"
            return not is_main and any(_acts(inner) for inner in (*body, *orelse))
        case _:
            return isinstance(statement, ast.Expr | ast.For | ast.While | ast.With | ast.Delete)


WATCH = """
import importlib, pkgutil, sys, threading

forbidden = ("socket.connect", "subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn", "os.mkdir",
             "os.remove", "os.rename", "os.chmod", "os.kill", "os.putenv", "os.chdir")
done = []

def watch(event, arguments):
    if event in forbidden or (event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
        done.append((event, repr(arguments)))

import pidispatch
names = [module.name for module in pkgutil.walk_packages(pidispatch.__path__, "pidispatch.")]
names = [name for name in names if name != "pidispatch.actors" and not name.endswith(".__main__")]
sys.addaudithook(watch)
for name in names:
    importlib.import_module(name)
    if done or threading.active_count() > 1:
        sys.exit(f"importing {name}: {done} {threading.enumerate()}")
print(len(names))
"""


def test_importing_everything_touches_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCH], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def test_the_map_names_every_room_and_no_other() -> None:
    paths = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    rows = {path.stem for path in paths if len(path.parts) == 1 and not path.stem.startswith("__")}
    packages = {
        ".".join(path.parent.parts) for path in paths if path.stem == "__init__" and len(path.parts) > 1
    }

    assert set(rooms()) == rows | packages


def test_the_map_tells_the_path_of_a_run_by_names_that_there_are() -> None:
    told = set(re.findall(r"`([a-z.]+)`", pidispatch.__doc__.partition("The rows")[0]))
    actors = ast.parse((PACKAGE / "actors.py").read_bytes()).body

    modules = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.rglob("*.py")}
    assert told <= {*rooms(), *modules, *(node.name for node in actors if isinstance(node, ast.FunctionDef))}
