"""The programs of the real image reach a listed host over TLS, by nothing but what pi's environment tells them."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from pidispatch.domain.box.sandbox import Mount

pytestmark = pytest.mark.docker
pip = pytest.importorskip("pip")


@pytest.fixture
def asked(ask, world, forge):
    bare = forge.root / "repo.git"
    work = forge.root.parent / "work"
    for command in (
        ["git", "init", "-q", "-b", "main", str(work)],
        ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "one"],
        ["git", "clone", "-q", "--bare", str(work), str(bare)],
        ["git", "-C", str(bare), "update-server-info"],
    ):  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    _package(forge.root / "simple/tiny")
    (forge.root / "hello.txt").write_text("hello from outside")
    before, world.internet.server = world.internet.server, forge.address

    def run(**commands: str):
        tried = {name: ("shell", command) for name, command in commands.items()}
        tools = Mount(str(Path(pip.__file__).parent), "/opt/tools/pip", read_only=True)
        return ask(tried, {"ca.pem": forge.certificate}, (tools,))

    yield run
    world.internet.server = before


def _package(folder):
    """The page of an index, and the one wheel on it."""
    folder.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (folder / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


def test_git_pip_node_and_python_work_through_the_door(asked, forge, world):
    found = asked(
        git="GIT_SSL_CAINFO=/job/ca.pem git clone -q https://forge.example/repo.git r && git -C r log --format=%s",
        node="NODE_EXTRA_CA_CERTS=/job/ca.pem node -e \"fetch('https://forge.example/hello.txt').then(r => r.text()).then(console.log)\"",
        python="SSL_CERT_FILE=/job/ca.pem python3 -c \"import urllib.request as u; print(u.urlopen('https://forge.example/hello.txt').read().decode())\"",
        pip="PYTHONPATH=/opt/tools python3 -m pip download -q --no-deps --disable-pip-version-check --cert /job/ca.pem"
        " --index-url https://forge.example/simple -d /tmp/got tiny && ls /tmp/got",
        blocked="GIT_SSL_CAINFO=/job/ca.pem git ls-remote https://elsewhere.example/repo.git",
    )

    assert found["git"] == "0 one"
    assert found["node"].startswith("0 hello from outside")  # behind it, node warns of its own proxy support
    assert found["python"] == "0 hello from outside"
    assert found["pip"] == "0 tiny-1.0-py3-none-any.whl"
    assert "403" in found["blocked"]
    assert not found["blocked"].startswith("0 ")
    assert any("repo.git" in line for line in forge.asked)
    assert {port for _, port in world.internet.dialled} == {443}
