"""What `docker-compose.yml` must not lose; there is neither a YAML parser nor Docker's compose plug-in to ask here."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docker-compose.yml").read_text()


def test_both_servers_listen_on_this_machine_only() -> None:
    published = re.findall(r'^\s+- "([\d.:]+)"$', TEXT, re.MULTILINE)

    assert published == ["127.0.0.1:5432:5432", "127.0.0.1:6379:6379"]


def test_no_password_is_written_down_and_none_may_be_missing() -> None:
    given = re.findall(r"^\s+\w*(?:PASSWORD|AUTH): (.*?)(?: #.*)?$", TEXT, re.MULTILINE)

    assert len(given) == 3
    assert all(
        re.fullmatch(r"\$\{PIDISPATCH_\w+_PASSWORD:\?set PIDISPATCH_\w+_PASSWORD\}", text) for text in given
    )


def test_the_bells_survive_a_restart_and_are_never_evicted() -> None:
    assert "        appendonly yes\n        maxmemory-policy noeviction\n" in TEXT
    assert "- valkey:/data" in TEXT


def test_the_data_of_postgres_lie_where_its_image_of_version_18_keeps_them() -> None:
    assert "image: postgres:18\n" in TEXT
    assert "- postgres:/var/lib/postgresql #" in TEXT


@pytest.mark.parametrize("service", ["postgres", "valkey"])
def test_each_server_says_when_it_is_ready(service: str) -> None:
    body = re.split(r"^  (?=\w+:$)", TEXT, flags=re.MULTILINE)

    assert any(part.startswith(f"{service}:") and "healthcheck:" in part for part in body)


def test_it_is_indented_by_twos_without_tabs() -> None:
    assert "\t" not in TEXT
    assert all((len(line) - len(line.lstrip(" "))) % 2 == 0 for line in TEXT.splitlines() if line.strip())
