"""An agent that has learnt the provider's key writes it wherever we keep what it says: no table holds it."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import text

from pidispatch.domain.outbox import Letter
from pidispatch.domain.redaction import MASK
from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from tests.domain.test_redaction import pieces_of, readings
from tests.flows.site import KEY, Site
from tests.flows.test_chain import ALLOW, BEFORE, answers, children
from tests.gateway.parts import UnixClient, chat
from tests.store.builders import HOST, a_run, row, value

FORMS = {
    "plain": KEY,
    "base64": base64.b64encode(b"it is " + KEY.encode()).decode(),
    "hex": KEY.encode().hex(),
    "percent": quote(KEY) + " " + "".join(f"%{byte:02x}" for byte in KEY.encode()),
    "json": "".join(f"\\u{ord(character):04x}" for character in KEY),
    "split": " ".join(KEY),
    "in lines": "\n".join([KEY[:9], KEY[9:18], KEY[18:]]),
}
WORDS = [KEY, KEY.upper(), KEY.encode().hex(), base64.urlsafe_b64encode(KEY.encode()).decode().rstrip("=")]


@pytest.fixture
def site(database):
    site = Site(database)
    site.gitbox.skills_at = {BEFORE: {"review": ALLOW}}
    return site


@pytest.fixture
def gateway(site, short_directory):
    """A real gateway over this site's rows, which alone knows the key."""
    with ScriptedProvider() as provider:
        gateway = Gateway(
            short_directory / "run",
            short_directory / "secret",
            HOST,
            tickets=site.tickets,
            ledger=site.ledger,
            providers=Providers(keys={"SCRIPTED_API_KEY": KEY}, upstreams={"scripted": f"{provider.url}/v1"}),
            drain_seconds=0.2,
            stop_seconds=0.2,
        )
        gateway.start()
        site.doors.redact = ControlDoors(short_directory / "run" / "gateway.sock").redact
        yield ControlDoors(short_directory / "run" / "gateway.sock")
        gateway.stop()


def everything_in(database):
    """Every value of every table, as text."""
    with database.transaction() as connection:
        tables = (
            connection.execute(
                text("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema()")
            )
            .scalars()
            .all()
        )
        for table in tables:
            for found in connection.exec_driver_sql(f"SELECT * FROM {table}"):
                for each in found:
                    if isinstance(each, bytes | memoryview):
                        yield table, bytes(each).decode(errors="replace")
                    elif each is not None:
                        yield table, each if isinstance(each, str) else json.dumps(each, default=str)
                        yield table, json.dumps(each, default=str, ensure_ascii=False)


def leaks(database):
    pieces = list(pieces_of(KEY))
    return [
        (table, found)
        for table, found in everything_in(database)
        if any(piece in reading for reading in readings(found) for piece in pieces)
    ]


def go(gateway, site, claim):
    client = UnixClient(Path(gateway.open(claim.run_id)) / "s")
    container = site.container(claim.run_id)[:12]
    _, answer = client.ask("POST", "/go", {"attempt": claim.attempt, "container": container})
    return client, answer["key"]


def a_report(message, word):
    return {
        "v": 1, "attempt": 1, "code": 0, "reason": word, "turns": 1, "truncated": False, "message": message,
        "tokens": {word: 1}, "context": None, "session": {"resumed": False, "reason": word}, "pi": word,
    }  # fmt: skip


@pytest.mark.parametrize("signed", [True, False])
def test_nothing_that_is_kept_of_a_run_holds_the_key(site, gateway, database, signed):
    for number, word in enumerate(WORDS):
        a_run(database, folder=f"/repos/{number}")
        claim, container = site.started()
        client, key = go(gateway, site, claim)
        client.ask("POST", "/v1/chat/completions", chat(model=word))
        if signed:
            body = json.dumps(a_report("\n\n".join(FORMS.values()), word)).encode()
            signature = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
            assert client.ask("POST", "/report", body, {"x-pidispatch-signature": signature})[0] == 204
        client.close()
        said = json.dumps(
            {
                "event": "exit",
                "jobId": "x",
                "code": 0,
                "reason": word,
                "message": KEY,
                "usage": {"v": 1, "models": [{"provider": "x", "model": word}]},
            }
        )
        site.letters[site.runs.facts(claim.run_id).container_name] = tuple(
            Letter(str(at), json.dumps({"flow": "review", "task": f"use {form}"}).encode())
            for at, form in enumerate(FORMS.values())
        )
        site.boxes.finish(container, 0, f"\n{said}\n".encode())
        gateway.close(claim.run_id)
        site.finisher.finish(claim.run_id)

    assert leaks(database) == []
    assert value(database, "SELECT count(*) FROM runs WHERE state = 'ended' AND outcome = 'completed'") == 4
    assert value(database, "SELECT count(*) FROM provider_calls WHERE model = :mask", mask=MASK) >= 3
    assert children(database)
    reported = value(database, "SELECT reported FROM run_attempts ORDER BY run_id LIMIT 1") or {}
    assert reported.get("reason") == MASK


def test_what_the_test_above_looks_for_would_be_found(site, database):
    for form in FORMS.values():
        with database.transaction() as connection:
            connection.execute(text("DELETE FROM run_payloads"))
        a_run(database, task=form.encode())
        assert leaks(database), form


def test_without_the_gateway_only_known_words_are_kept_and_no_child_is_made(site, database):
    a_run(database)
    claim, container = site.started()
    site.go(claim)
    site.letters[site.runs.facts(claim.run_id).container_name] = (
        Letter("1", json.dumps({"flow": "review", "task": KEY}).encode()),
    )
    said = {"event": "exit", "jobId": "x", "code": 0, "reason": "anything-else"}
    site.boxes.finish(container, 0, f"\n{json.dumps(said)}\n".encode())
    site.doors.down = True
    site.finisher.finish(claim.run_id)
    site.offset = "61 seconds"

    site.finisher.finish(claim.run_id)

    assert row(database, "SELECT state, outcome FROM runs WHERE id = :id", id=claim.run_id) == {
        "state": "ended",
        "outcome": "completed",
    }
    assert answers(site, claim) == ["chain-collect-error"]
    reported = value(database, "SELECT reported FROM run_attempts WHERE run_id = :id", id=claim.run_id)
    assert reported["reason"] is None
    assert leaks(database) == []
