"""An installed pidispatch has what a checkout has: it upgrades its database and knows its image."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import check
from pidispatch.runtime.imageinputs import read_inputs
from tests.support.boxes import image_or_skip

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Standard output of a command with a bare environment; nothing of this checkout is on its path."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
    done = subprocess.run(
        command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def wheel(elsewhere: Path) -> Path:
    """Built from a copy of what git would give, so that a build leaves nothing in the checkout."""
    source = elsewhere / "source"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
    shutil.copytree(ROOT, source, ignore=ignored)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", elsewhere, cwd=source)
    return next(elsewhere.glob("pidispatch-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, elsewhere: Path) -> Iterator[Path]:
    """The folder of the installed commands; the libraries are borrowed from this interpreter, pidispatch is not."""
    place = elsewhere / "venv"
    run(sys.executable, "-m", "venv", place, cwd=elsewhere)
    libraries = Path(run(place / "bin/python", "-c", WHERE, cwd=elsewhere).strip())
    (libraries / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(place / "bin/python", "-m", "pip", "install", "--no-deps", "--no-index", wheel, cwd=elsewhere)
    yield place / "bin"
    shutil.rmtree(place)


WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def test_the_wheel_ships_migrations_and_image_files_but_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())

    for folder in ("migrations", "image"):
        ours = {path for path in (ROOT / folder).rglob("*") if path.is_file()}
        tracked = {path for path in ours if "__pycache__" not in path.parts and "build" not in path.parts}
        assert {f"pidispatch/_shipped/{path.relative_to(ROOT).as_posix()}" for path in tracked} <= names
    assert "pidispatch/_shipped/image/Dockerfile" in names
    assert any(name.startswith("pidispatch/_shipped/migrations/versions/0001") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"pidispatch"}
    assert not any("__pycache__" in name for name in names)


def test_it_is_the_installed_package_that_runs(installed: Path, elsewhere: Path) -> None:
    said = run(installed / "python", "-c", "import pidispatch; print(pidispatch.__file__)", cwd=elsewhere)

    assert Path(said.strip()).is_relative_to(elsewhere)


def test_an_installed_pidispatch_upgrades_its_database(
    installed: Path, elsewhere: Path, empty_database_url: str, redis_url: str
) -> None:
    environment = {
        "DATABASE_URL": empty_database_url,
        "REDIS_URL": redis_url,
        "PIDISPATCH_HOME": str(elsewhere / "home"),
    }

    run(installed / "pidispatch", "db", "upgrade", cwd=elsewhere, **environment)

    run(installed / "pidispatch", "db", "check", cwd=elsewhere, **environment)


DIGEST = """
from pidispatch import shipped
from pidispatch.runtime.imageinputs import read_inputs
print(read_inputs(shipped.folder("image"), "amd64").digest)
"""


def test_an_installed_pidispatch_builds_the_image_from_the_same_files(
    installed: Path, elsewhere: Path
) -> None:
    from_the_wheel = run(installed / "python", "-c", DIGEST, cwd=elsewhere).strip()

    assert from_the_wheel == read_inputs(ROOT / "image", "amd64").digest


@pytest.mark.docker
def test_an_installed_pidispatch_knows_the_image_that_the_checkout_built(
    installed: Path, elsewhere: Path
) -> None:
    tag = image_or_skip(Engine())
    if not check(tag, image_dir=ROOT / "image").ok:
        pytest.skip(f"{tag} was built from other files than this checkout's")

    run(
        installed / "pidispatch", "image", "check", cwd=elsewhere,
        PI_JOB_IMAGE=tag, PIDISPATCH_HOME=str(elsewhere / "home"),
    )  # fmt: skip
