"""Read every declared property of a box back from inside a live one."""

import re

import pytest

from pidispatch.domain.box.sandbox import (
    AGENT_DIR,
    GATE_DIR,
    HOME_DIR,
    JOB_DIR,
    MIB,
    OUTBOX_DIR,
    WORKSPACE_DIR,
    Mount,
)
from tests.support.boxes import SOMEBODY, a_box
from tests.support.patience import eventually

pytestmark = pytest.mark.docker

MEMORY = 512 * MIB
CPUS = 0.5
QUARTER = MEMORY // 4

PROBE = r"""
section() { printf '\n=== %s\n' "$1"; }
section status;   cat /proc/self/status
section init;     cat /proc/1/comm
section mounts;   cat /proc/self/mountinfo
section network;  cat /proc/net/dev
section routes;   cat /proc/net/route
section hostname; cat /etc/hostname
section env;      env
section write
for place in / /etc /job /gate /workspace /outbox /tmp /home/pi /agent /run /dev/shm; do
  if (: >"$place/probe") 2>/dev/null; then echo "$place yes"; else echo "$place no"; fi
done
section run
for place in /tmp /home/pi /run /agent; do
  printf '#!/bin/sh\necho ran\n' >"$place/program"; chmod 755 "$place/program"
  echo "$place $("$place/program" 2>/dev/null || echo refused)"
done
section settings; cat /agent/settings.json
section memory;   cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max
section swap;     cat /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.swap.max
section pids;     cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max
section cpu;      cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2>/dev/null \
                    || cat /sys/fs/cgroup/cpu.max
section end
sleep 60
"""


@pytest.fixture
def host(tmp_path):
    """The directories of a job on the host; the colon and the newline are the folder's own."""
    import os

    places = {
        "job": tmp_path / "job",
        "gate": tmp_path / "gate",
        "outbox": tmp_path / "outbox",
        "workspace": tmp_path / "a:folder with\na newline",
    }
    for place in places.values():
        place.mkdir()
    for place in ("outbox", "workspace"):
        os.chown(places[place], SOMEBODY, SOMEBODY)
    (places["job"] / "settings.json").write_text('{"here": true}')
    return places


@pytest.fixture
def spec(installation, job_image, host):
    return a_box(
        installation,
        job_image,
        "sh",
        "-c",
        PROBE,
        memory=MEMORY,
        cpus=CPUS,
        env={"PI_MODEL": "a model", "HOME": HOME_DIR},
        working_dir=WORKSPACE_DIR,
        mounts=(
            Mount(str(host["job"]), JOB_DIR, read_only=True),
            Mount(str(host["workspace"]), WORKSPACE_DIR, read_only=False),
            Mount(str(host["outbox"]), OUTBOX_DIR, read_only=False),
            Mount(str(host["gate"]), GATE_DIR, read_only=True),
            Mount(str(host["job"] / "settings.json"), f"{AGENT_DIR}/settings.json", read_only=True),
        ),
    )


@pytest.fixture
def live(boxes, spec):
    """(container id, what the probe inside printed, by section)."""
    container_id = boxes.create(spec)
    boxes.start(container_id)

    def look():
        said = boxes.tail(container_id, MIB).decode()
        return said if "\n=== end\n" in said else None

    said = eventually(look)
    assert said, boxes.tail(container_id, MIB)
    sections = re.split(r"^=== (\w+)\n", said, flags=re.MULTILINE)
    return container_id, dict(zip(sections[1::2], sections[2::2], strict=True))


def fields(text):
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def mounts(text):
    """Mount point → (mount options, file system, its options)."""
    found = {}
    for line in text.strip().splitlines():
        left, right = (part.split() for part in line.split(" - "))
        found[left[4]] = (set(left[5].split(",")), right[0], set(right[2].split(",")))
    return found


def words(text):
    return dict(line.rsplit(" ", 1) for line in text.strip().splitlines())


def assert_rights(status):
    for right in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"):
        assert int(status[right], 16) == 0, right
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(SOMEBODY)}
    assert not set(status.get("Groups", "").split()) - {str(SOMEBODY)}


def assert_scratch(found, path, size, *, executable):
    options, kind, inner = found[path]
    assert kind == "tmpfs"
    assert {"nosuid", "nodev", "rw"} <= options
    assert ("noexec" not in options) is executable
    assert f"size={size // 1024}k" in inner
    assert {f"uid={SOMEBODY}", f"gid={SOMEBODY}"} <= inner or path == "/dev/shm"


def assert_mounts(found):
    assert "ro" in found["/"][0]
    for place in (JOB_DIR, GATE_DIR, f"{AGENT_DIR}/settings.json"):
        assert "ro" in found[place][0], place
    for place in (WORKSPACE_DIR, OUTBOX_DIR):
        assert "rw" in found[place][0], place
    assert_scratch(found, "/tmp", QUARTER, executable=True)
    assert_scratch(found, HOME_DIR, QUARTER, executable=True)
    assert_scratch(found, "/run", 16 * MIB, executable=False)
    assert_scratch(found, "/dev/shm", MEMORY // 2, executable=False)
    assert_scratch(found, AGENT_DIR, 64 * MIB, executable=False)


def assert_limits(said):
    assert int(said["memory"]) == MEMORY
    # Version 1 counts memory and swap together; version 2 swap alone.
    assert int(said["swap"]) in {MEMORY, 0}
    assert int(said["pids"]) == 512
    quota, period = said["cpu"].split()
    assert int(quota) / int(period) == CPUS


def test_a_live_box_has_every_declared_property(live, boxes):
    container_id, said = live

    assert_rights(fields(said["status"]))
    assert_mounts(mounts(said["mounts"]))
    assert_limits(said)
    devices = [line.split(":")[0].strip() for line in said["network"].splitlines() if ":" in line]
    assert devices == ["lo"]
    assert len(said["routes"].strip().splitlines()) == 1  # the heading
    assert said["init"].strip() in {"docker-init", "tini", "catatonit"}
    assert said["hostname"].strip() == container_id[:12]
    assert said["settings"].strip() == '{"here": true}'


def test_a_box_can_write_only_where_it_should(live):
    _, said = live

    assert words(said["write"]) == {
        "/": "no",
        "/etc": "no",
        "/job": "no",
        "/gate": "no",
        "/workspace": "yes",
        "/outbox": "yes",
        "/tmp": "yes",
        "/home/pi": "yes",
        "/agent": "yes",
        "/run": "yes",
        "/dev/shm": "yes",
    }
    assert words(said["run"]) == {"/tmp": "ran", "/home/pi": "ran", "/run": "refused", "/agent": "refused"}


def test_what_a_box_writes_belongs_to_the_folders_owner(live, host):
    written = (host["workspace"] / "probe").stat()

    assert (written.st_uid, written.st_gid) == (SOMEBODY, SOMEBODY)


def test_a_box_gets_the_environment_of_its_spec_and_no_proxy_of_the_host(
    boxes, spec, engine, tmp_path, monkeypatch
):
    (tmp_path / "config.json").write_text(
        '{"proxies": {"default": {"httpProxy": "http://user:secret@proxy.invalid"}}}'
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    facts = engine.api.inspect_container(boxes.create(spec))

    env = facts["Config"]["Env"]
    assert "PI_MODEL=a model" in env
    assert not [entry for entry in env if "proxy" in entry.lower()]


def test_the_engine_keeps_a_box_and_its_bounded_log_after_its_end(boxes, spec, engine):
    host_config = engine.api.inspect_container(boxes.create(spec))["HostConfig"]

    assert host_config["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50m", "max-file": "2"}}
    assert host_config["AutoRemove"] is False
    assert host_config["RestartPolicy"]["Name"] == "no"
    assert host_config["IpcMode"] == "private"
    assert host_config["SecurityOpt"] == ["no-new-privileges"]
