"""`config`: values with their origin, and no secret."""

PASSWORD = "hunter2-s3cret-s3cret"


def test_each_value_says_where_it_came_from(command, bare, tmp_path):
    (tmp_path / ".env").write_text("PI_DAILY_CAP=7\nPI_MODEL=from-file\n")
    bare.setenv("PI_MODEL", "from-shell")

    rows = {row["name"]: row for row in command("config", "--json").document}

    assert rows["PI_DAILY_CAP"] == {"name": "PI_DAILY_CAP", "value": 7, "source": ".env"}
    assert rows["PI_MODEL"] == {"name": "PI_MODEL", "value": "from-shell", "source": "environment"}
    assert rows["PI_CONCURRENCY"] == {"name": "PI_CONCURRENCY", "value": 3, "source": "default"}
    assert ["PI_DAILY_CAP", "7", ".env"] in [line.split() for line in command("config").out.splitlines()]


def test_a_secret_is_set_or_unset(command, bare):
    bare.setenv("VALKEY_PASSWORD", PASSWORD)

    rows = {row["name"]: row["value"] for row in command("config", "--json").document}

    assert rows["VALKEY_PASSWORD"] == "set"
    assert rows["DATABASE_URL"] is None


def test_every_fault_is_told_at_once_with_exit_code_2(command, bare):
    bare.setenv("PI_DAILY_CAP", "5x")
    bare.setenv("PI_MAX_TURNS", "05")

    for arguments in (("config",), ("runs",), ("db", "url"), ("status", "--json")):
        said = command(*arguments)
        assert (said.code, said.out) == (2, "")
        lines = said.err.splitlines()
        assert [line.split()[1] for line in lines] == ["PI_DAILY_CAP", "PI_MAX_TURNS"]
