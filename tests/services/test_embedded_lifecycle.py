"""Both servers through their lives, as root (servers are another user) and as an ordinary user."""

import json
import signal
from pathlib import Path

import psutil
import pytest
from sqlalchemy import make_url

from tests.services.conftest import gone, seconds_until

SERVE = """
    import json, sys, time
    from pathlib import Path
    from pidispatch.services.account import server_account
    from pidispatch.app.up import embedded_postgres, embedded_valkey
    from pidispatch.services.home import Home

    began = time.monotonic()
    folder = Path(sys.argv[1])
    home, account = Home(folder / sys.argv[2], folder / "run dir"), server_account()
    with home.lock(account):
        valkey, postgres = embedded_valkey(home, account), embedded_postgres(home, account, durable="durable" in sys.argv)
        valkey.start()
        valkey_ready = time.monotonic() - began
        postgres.start()
        home.publish(database=postgres.url(), redis=valkey.url())
        print(json.dumps({
            "pids": [postgres.pid, valkey.pid], "urls": [postgres.url(), valkey.url()],
            "ready": [round(valkey_ready, 3), round(time.monotonic() - began, 3)],
            "uid": account.uid if account else None, "home": str(home.root),
        }), flush=True)
        time.sleep(60)
"""


def served(process) -> dict:
    line = process.stdout.readline()
    assert line, "the script ended before its servers were ready"
    return json.loads(line)


def query(url: str, sql: str) -> list[tuple]:
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


@pytest.mark.parametrize("name", ["home", "a home with spaces & 'quotes'"])
def test_a_killed_parent_takes_both_servers_along_and_a_second_start_finds_the_data(start_script, name):
    import redis

    durable = "durable" if name == "home" else "fast"
    first = start_script(SERVE, name, durable)
    facts = served(first)
    query(facts["urls"][0], "CREATE TABLE kept (word text); INSERT INTO kept VALUES ('still here')")
    with redis.Redis.from_url(facts["urls"][1]) as client:
        client.set("word", "still here")

    first.send_signal(signal.SIGKILL)
    # A last checkpoint to a busy disk may take its time.
    limit = 15 if durable == "durable" else 2
    went = seconds_until(lambda: all(gone(pid) for pid in facts["pids"]), limit)
    second = served(start_script(SERVE, name, durable))

    assert make_url(second["urls"][0]).query["host"].endswith("/run dir/pg")
    print(f"fresh {facts['ready']}, gone after {went:.2f}, again {second['ready']}")
    assert query(second["urls"][0], "SELECT word FROM kept") == [("still here",)]
    with redis.Redis.from_url(second["urls"][1]) as client:
        assert client.get("word") == b"still here"


def test_the_next_start_does_not_wait_for_the_dying_servers_in_vain(start_script):
    first = start_script(SERVE, "home")
    served(first)

    first.send_signal(signal.SIGKILL)
    second = served(start_script(SERVE, "home"))

    assert query(second["urls"][0], "SELECT 1") == [(1,)]


def test_servers_are_never_root_keep_their_data_private_hear_no_secret_and_give_us_no_superuser(
    start_script, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    facts = served(start_script(SERVE, "home"))

    owners = {psutil.Process(pid).uids().effective for pid in facts["pids"]}
    private = [
        (Path(facts["home"]) / "data" / name).stat().st_mode & 0o777 for name in ("postgres", "valkey")
    ]
    assert 0 not in owners
    assert private == [0o700, 0o700]
    assert all("sk-secret" not in str(psutil.Process(pid).environ()) for pid in facts["pids"])
    ours = query(
        facts["urls"][0],
        "SELECT current_user, rolsuper, rolcreaterole, rolcreatedb, pg_get_userbyid(datdba), current_setting('TimeZone')"
        " FROM pg_roles, pg_database WHERE rolname = current_user AND datname = current_database()",
    )
    assert ours == [("pidispatch", False, False, False, "pidispatch", "UTC")]
