"""The documentation and the example file say what the settings are."""

import re
from pathlib import Path

from pidispatch.config import NO_EFFECT_YET, NOT_ENFORCED_YET, Place, describe, load, without_effect
from pidispatch.config.providers import FAMILIES
from pidispatch.config.settings import FIELDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/configuration.md").read_text()
EXAMPLE = (ROOT / ".env.example").read_text()
ROOT_USER = Place(uid=0, user_home="/root", host_name="this-host")

TOLD_IN_WORDS = {
    "PIDISPATCH_HOME": "`~/.pidispatch`; root: `/var/lib/pidispatch`",
    "PIDISPATCH_RUN_DIR": "`$XDG_RUNTIME_DIR/pidispatch`, else `<home>/run`; root: `/run/pidispatch`",
    "PI_WORKER_NAME": "the host name",
    "PI_CODING_AGENT_DIR": "`~/.pi/agent`",
    "PI_JOBS_DIR": "`<home>/jobs`",
    "PI_LOGS_DIR": "`<home>/logs`",
    "PI_SANDBOX_DIR": "`<jobs>/sandboxes`",
    "PI_SETTINGS_FILE": "`<home>/settings.json`",
    "PI_JOB_CPUS": "`2`",
}


def default_in_words(row):
    words = {None: "unset", "unset": "unset", True: "on", False: "off"}
    if row.value == []:
        return "empty"
    is_word = row.value is None or isinstance(row.value, bool) or row.value == "unset"
    return TOLD_IN_WORDS.get(row.name) or (words[row.value] if is_word else f"`{row.value}`")


def test_the_page_lists_every_setting_with_its_default():
    told = dict(re.findall(r"^\| `([A-Z_]+(?:<PROVIDER>)?)` \| (.+?) \| .+ \|$", PAGE, re.MULTILINE))
    defaults = {row.name: default_in_words(row) for row in describe(load({}, None, place=ROOT_USER))}

    assert told == defaults | dict.fromkeys(FAMILIES, "unset")
    assert set(told) == set(FIELDS)


def test_the_page_lists_what_is_refused_for_now():
    section = PAGE.partition("## Refused for now")[2].partition("\n## ")[0]

    assert set(re.findall(r"`([A-Z_]+)`", section)) == NOT_ENFORCED_YET
    for name in NOT_ENFORCED_YET & set(FIELDS):
        assert re.search(rf"^\| `{name}` \| unset \| Refused for now", PAGE, re.MULTILINE), name


def test_the_page_lists_what_is_without_effect_for_now():
    section = PAGE.partition("## Without effect for now")[2]

    assert set(re.findall(r"`([A-Z_]+)`", section)) == NO_EFFECT_YET


def test_a_setting_without_effect_is_named_when_it_is_given():
    given = load({"PI_CAPTURE_JOB_LOGS": "1", "PI_MODEL": "m"}, None, place=ROOT_USER)

    assert without_effect(given.sources) == ("PI_CAPTURE_JOB_LOGS",)


def test_the_example_file_holds_every_name_that_may_be_set():
    names = set(re.findall(r"^# ([A-Z_]+)=", EXAMPLE, re.MULTILINE))
    keys = {name for name in names if name.endswith("_API_KEY")}

    assert names - keys == set(FIELDS) - set(FAMILIES) - NOT_ENFORCED_YET


def test_the_example_file_sets_nothing_and_shows_the_defaults(tmp_path):
    dotenv = tmp_path / ".env"
    dotenv.write_text(EXAMPLE)
    plain = load({}, None, place=ROOT_USER)

    assert load({}, dotenv, place=ROOT_USER) == plain

    dotenv.write_text(re.sub(r"^# ([A-Z_]+=)", r"\1", EXAMPLE, flags=re.MULTILINE))
    shown = {row.name: row.value for row in describe(load({}, dotenv, place=ROOT_USER))}
    examples = {"DATABASE_URL", "REDIS_URL", "VALKEY_URL", "VALKEY_PASSWORD"}  # what has no default
    examples |= {"PI_SCOPED_LIMITS_FILE", "PI_PROJECTS_FILE", "PI_PAUSE_WINDOWS_FILE", "PI_TRIGGERS_FILE"}
    examples |= {
        "PI_WAIT_PROFILES",
        "PIDISPATCH_PRICES_FILE",
        "PIDISPATCH_PROVIDERS_FILE",
        "PIDISPATCH_FIRST_BYTE_TIMEOUT",
    }
    examples |= {"PIDISPATCH_EGRESS_OFF_BECAUSE", "PIDISPATCH_EGRESS_FILE"}
    assert {name: value for name, value in shown.items() if name not in examples} == {
        row.name: row.value for row in describe(plain) if row.name not in examples
    }
