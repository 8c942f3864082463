"""What `load` takes, refuses and defaults to."""

from datetime import timedelta
from pathlib import Path
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pidispatch.config import NOT_ENFORCED_YET, AtSigterm, Place, Source, describe, load
from pidispatch.domain.box.names import EGRESS_NAMES, MINTED_NAMES, WORKER_SECRETS
from pidispatch.domain.providers.known import all_key_names
from pidispatch.errors import ConfigurationRefused

PERSON = Place(uid=1000, user_home="/home/ada", host_name="desk")
ROOT = Place(uid=0, user_home="/root", host_name="server")
GIB = 1024**3


def settings(_refused=NOT_ENFORCED_YET, _place=PERSON, **environ):
    return load(environ, None, place=_place, refused=_refused)


def problems(_refused=NOT_ENFORCED_YET, _place=PERSON, **environ):
    with pytest.raises(ConfigurationRefused) as refusal:
        load(environ, None, place=_place, refused=_refused)
    return refusal.value.problems


ACCEPTED = [
    ("PI_CONCURRENCY", "7", "concurrency", 7),
    ("PI_DAILY_CAP", "1", "daily_cap", 1),
    ("PI_DAILY_CAP", str(2**53 - 1), "daily_cap", 2**53 - 1),
    ("PI_WEEKLY_CAP", "100", "weekly_cap", 100),
    ("PI_MONTHLY_CAP", "400", "monthly_cap", 400),
    ("PI_SOFT_HOLD_PCT", "1", "soft_hold_pct", 1),
    ("PI_SOFT_HOLD_PCT", "99", "soft_hold_pct", 99),
    ("PI_MAX_TURNS", "12", "max_turns", 12),
    ("PI_MAX_TOKENS", "200000", "max_tokens", 200_000),
    ("PIDISPATCH_JOB_TIMEOUT", "60", "job_timeout", 60),
    ("PIDISPATCH_JOB_TIMEOUT", "86400", "job_timeout", 86_400),
    ("PI_WAIT_PROFILES", "ci:/opt/ci", "wait_profiles", ("ci:/opt/ci",)),
    ("PI_WAIT_PROFILES", " a.b:/x y:z , c-d_1:/q ", "wait_profiles", ("a.b:/x y:z", "c-d_1:/q")),
    ("PI_WAIT_CHECK_TIMEOUT_MS", "250", "wait_check_timeout", timedelta(milliseconds=250)),
    ("PI_WAIT_INTERVAL_MS", "1", "wait_interval", timedelta(seconds=30)),
    ("PI_WAIT_INTERVAL_MS", "30000", "wait_interval", timedelta(seconds=30)),
    ("PI_WAIT_INTERVAL_MS", "30001", "wait_interval", timedelta(seconds=30.001)),
    ("PI_WAIT_CHECK_SLOTS", "4", "wait_check_slots", 4),
    ("PI_WAIT_MAX_MS", "1000", "wait_max", timedelta(seconds=1)),
    ("PI_WAIT_AFTER_MAX_MS", "86400000", "wait_after_max", timedelta(days=1)),
    ("PI_WAIT_MAX_CHECKS", "1", "wait_max_checks", 1),
    ("PI_WAIT_MAX_FAULTS", "9", "wait_max_faults", 9),
    ("PIDISPATCH_AT_SIGTERM", "drain", "at_sigterm", AtSigterm.DRAIN),
    ("PIDISPATCH_AT_SIGTERM", "stop-runs", "at_sigterm", AtSigterm.STOP_RUNS),
    ("PI_PROVIDER", "openai", "provider", "openai"),
    ("PI_MODEL", "gpt-5.2/high:thinking", "model", "gpt-5.2/high:thinking"),
    (
        "PI_JOB_IMAGE",
        "registry.example:5000/a/b@sha256:00",
        "job_image",
        "registry.example:5000/a/b@sha256:00",
    ),
    ("PI_ALLOWED_MODELS", "a/b", "allowed_models", ("a/b",)),
    (
        "PI_ALLOWED_MODELS",
        "openrouter/~vendor/m:x@1,p/m",
        "allowed_models",
        ("openrouter/~vendor/m:x@1", "p/m"),
    ),
    (
        "PI_ALLOWED_MODELS",
        ",".join(f"p/m{n}" for n in range(16)),
        "allowed_models",
        tuple(f"p/m{n}" for n in range(16)),
    ),
    ("PI_ALLOWED_MODELS", "", "allowed_models", ()),
    ("PI_JOB_MEMORY", "512m", "job_memory", GIB // 2),
    ("PI_JOB_MEMORY", "1024g", "job_memory", 1024 * GIB),
    ("PI_JOB_MEMORY", "1048576m", "job_memory", 1024 * GIB),
    ("PIDISPATCH_BOX_FILES", "16m", "box_files", GIB // 64),
    ("PIDISPATCH_BOX_FILE_MAX", "1024g", "box_file_max", 1024 * GIB),
    ("PIDISPATCH_DISK_STOP", "0", "disk_stop", 0),
    ("PIDISPATCH_DISK_WARN", "100g", "disk_warn", 100 * GIB),
    ("PIDISPATCH_BALLAST", "0", "ballast", 0),
    ("PI_JOB_CPUS", "0.25", "job_cpus", 0.25),
    ("PI_JOB_CPUS", "256", "job_cpus", 256.0),
    ("PI_JOB_CPUS", "1.5", "job_cpus", 1.5),
    ("PI_LOG_RETENTION_DAYS", "0", "log_retention_days", 0),
    ("PI_SANDBOX_RETENTION_HOURS", "0", "sandbox_retention_hours", 0),
    ("PI_SANDBOX_PIN_DAYS", "0", "sandbox_pin_days", 0),
    ("PI_SANDBOX_IDLE_MINUTES", "0", "sandbox_idle_minutes", 0),
    ("PI_SESSIONS_TTL_DAYS", "0", "sessions_ttl_days", 0),
    ("PI_SESSION_MAX_BYTES", "0", "session_max_bytes", 0),
    ("PI_CHAIN_DEPTH_MAX", "0", "chain_depth_max", 0),
    ("PI_CHAIN_MAX_PER_JOB", "0", "chain_max_per_job", 0),
    ("PI_DISPATCH_RUN_PER_HOUR", "0", "dispatch_run_per_hour", 0),
    ("PI_DISPATCH_RUN_ROOTS", "/a: /b c ::/d/../e", "dispatch_run_roots", ("/a", "/b c", "/d/../e")),
    ("PI_FORWARD_ENV", " MY_KEY, ,_other ,", "forward_env", ("MY_KEY", "_other")),
    ("PI_CAPTURE_JOB_LOGS", "1", "capture_job_logs", True),
    ("PI_CAPTURE_JOB_LOGS", "true", "capture_job_logs", False),
    ("PI_SESSIONS_ALLOW_GH_SOURCE", "1", "sessions_allow_gh_source", True),
    ("PI_SESSIONS_ALLOW_GH_SOURCE", "yes", "sessions_allow_gh_source", False),
    ("PI_AUTH_FROM_PI", "0", "auth_from_pi", False),
    ("PI_AUTH_FROM_PI", "no", "auth_from_pi", True),
    ("PI_GLOBAL_ALLOW_EXTENSIONS", "0", "global_allow_extensions", False),
    ("PI_GLOBAL_ALLOW_EXTENSIONS", "1", "global_allow_extensions", True),
    ("PI_EGRESS", "1", "egress", True),
    (
        "PIDISPATCH_EGRESS_OFF_BECAUSE",
        "the network is shut already ",
        "egress_off_because",
        "the network is shut already",
    ),
    (
        "PIDISPATCH_EGRESS_FILE",
        "/etc/egress-allowlist.conf",
        "egress_file",
        Path("/etc/egress-allowlist.conf"),
    ),
    ("PI_LOGS_DIR", "/var/log/pi dispatch", "logs_dir", Path("/var/log/pi dispatch")),
    ("PI_WORKER_NAME", "a" * 64, "worker_name", "a" * 64),
    ("PI_WORKER_NAME", "Box-1.example_com", "worker_name", "Box-1.example_com"),
    ("PIDISPATCH_RUN_DIR", "/" + "r" * 82, "run_dir", Path("/" + "r" * 82)),
]


@pytest.mark.parametrize(("name", "text", "field", "value"), ACCEPTED)
def test_a_text_that_follows_its_grammar_is_taken(name, text, field, value):
    found = getattr(settings(**{name: text}), field)

    assert (found, type(found)) == (value, type(value))


POSITIVE = [
    "PI_CONCURRENCY",
    "PI_DAILY_CAP",
    "PI_WEEKLY_CAP",
    "PI_MONTHLY_CAP",
    "PI_MAX_TURNS",
    "PI_MAX_TOKENS",
]
POSITIVE += [
    "PI_SCHEDULER_STALL_MAX",
    "PI_WAIT_CHECK_TIMEOUT_MS",
    "PI_WAIT_INTERVAL_MS",
    "PI_WAIT_CHECK_SLOTS",
]
POSITIVE += ["PI_WAIT_MAX_MS", "PI_WAIT_AFTER_MAX_MS", "PI_WAIT_MAX_CHECKS", "PI_WAIT_MAX_FAULTS"]
NON_NEGATIVE = [
    "PI_LOG_RETENTION_DAYS",
    "PI_SANDBOX_RETENTION_HOURS",
    "PI_SANDBOX_PIN_DAYS",
    "PI_SANDBOX_IDLE_MINUTES",
]
NON_NEGATIVE += ["PI_SESSIONS_TTL_DAYS", "PI_SESSION_MAX_BYTES", "PI_CHAIN_DEPTH_MAX", "PI_CHAIN_MAX_PER_JOB"]
NON_NEGATIVE += ["PI_DISPATCH_RUN_PER_HOUR"]
BOUNDED = ["PI_SOFT_HOLD_PCT", "PIDISPATCH_JOB_TIMEOUT"]
NOT_ROUND = [
    "5x",
    "05",
    "00",
    "1.0",
    " 7",
    "7 ",
    "7\n",
    "+7",
    "-1",
    "-0",
    "1e3",
    "0x10",
    "1_000",
    "٣",
    "\uff17",
    "NaN",
]
NOT_ROUND += ["Infinity", "null", "1,000", str(2**53), "9" * 5000]


@pytest.mark.parametrize("text", NOT_ROUND)
@pytest.mark.parametrize("name", POSITIVE + NON_NEGATIVE + BOUNDED)
def test_a_number_that_is_not_in_plain_digits_is_refused(name, text):
    (problem,) = problems(**{name: text})

    assert problem.startswith(f"{name} is {text[:200]!r}")
    assert "; want an integer from " in problem


@pytest.mark.parametrize("name", [*POSITIVE, *BOUNDED])
def test_zero_is_no_cap(name):
    assert problems(**{name: "0"})


@given(st.text(max_size=20))
def test_a_cap_is_the_number_whose_digits_were_written(text):
    environ = {"PI_DAILY_CAP": text}
    try:
        cap = load(environ, None, place=PERSON).daily_cap
    except ConfigurationRefused:
        return
    assert str(cap) == text or (text == "" and cap == 25)


REFUSED = [
    (
        "PI_ALLOWED_MODELS",
        [
            "a",
            "a/b, c/d",
            "a/b,",
            ",a/b",
            "/b",
            "a/",
            "a/b,A/B",
            " a/b",
            ",".join(f"p/m{n}" for n in range(17)),
        ],
    ),
    ("PI_SOFT_HOLD_PCT", ["100", "101"]),
    ("PIDISPATCH_JOB_TIMEOUT", ["59", "86401"]),
    ("PIDISPATCH_AT_SIGTERM", ["wait", "Drain"]),
    ("PI_CONCURRENCY", [str(2**31)]),
    ("PI_WAIT_CHECK_TIMEOUT_MS", ["600001", "10s"]),
    ("PI_WAIT_MAX_MS", [str(2**53)]),
    (
        "PI_WAIT_PROFILES",
        [
            "ci",
            "ci:",
            ":/ci",
            "ci:ci",
            "ci:./ci",
            "ci:~/ci",
            "ci:/a,ci:/b",
            "ci:/a,",
            ",",
            "c i:/a",
            "ci:/a,b",
        ],
    ),
    ("PI_LOG_RETENTION_DAYS", ["36501"]),
    ("PI_PROVIDER", ["", " ", "a b", "-x", "a\n", "a\0", "a\u202e"]),
    ("PI_MODEL", ["", " m", "m ", "--model"]),
    ("PI_JOB_IMAGE", [" pi-job", "pi-job ", "-v", "pi job", "\t", "pi\njob"]),
    (
        "PI_JOB_MEMORY",
        ["4", "4G", "4gb", "04g", "0g", "511m", "1025g", "1048577m", "1.5g", " 4g", "4g\n", "٤g"],
    ),
    ("PIDISPATCH_BOX_FILES", ["0", "15m", "1025g", "16", "16M", "016m"]),
    ("PIDISPATCH_BOX_FILE_MAX", ["0", "unlimited"]),
    ("PIDISPATCH_DISK_WARN", ["-1", "00", "5 g", "1025g", "10%"]),
    ("PIDISPATCH_BALLAST", ["0m", "none"]),
    (
        "PI_JOB_CPUS",
        ["0", "0.24", "256.01", "257", "0.251", ".5", "2.", "02", "1e1", "inf", "nan", "-1", " 2", "٢"],
    ),
    ("PI_GLOBAL_ALLOW_EXTENSIONS", ["false", "no", "off", "2", " 0", "00", "true"]),
    ("PI_EGRESS", ["false", "no", "off", "2", " 0", "00", "true"]),
    ("PIDISPATCH_EGRESS_OFF_BECAUSE", [" ", "a\nb"]),
    ("PI_JOBS_DIR", ["", "jobs", "./jobs", "~/jobs", "$HOME/jobs", "/a\nb", "/a\0"]),
    ("PI_LOGS_DIR", ["logs"]),
    ("PI_SANDBOX_DIR", ["~"]),
    ("PIDISPATCH_HOME", ["home", "~/x"]),
    ("PIDISPATCH_RUN_DIR", ["run", "/" + "r" * 83, "/" + "é" * 42]),
    ("PI_WORKER_NAME", ["-a", ".a", "a b", "a" * 65, "a.json", "a.log", "ä", "a/b", "a\n"]),
]


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in REFUSED for text in texts])
def test_a_text_outside_its_grammar_is_refused_with_what_was_given(name, text):
    (problem,) = problems(**{name: text})

    assert problem.startswith(f"{name} is {text!r}; want ")


EMPTY_FALLS_BACK = ["PI_JOB_IMAGE", "PI_LOGS_DIR", "PI_SANDBOX_DIR", "PI_CAPTURE_JOB_LOGS", "PI_AUTH_FROM_PI"]
EMPTY_FALLS_BACK += [
    "PI_EGRESS",
    "PIDISPATCH_EGRESS_OFF_BECAUSE",
    "PI_GLOBAL_ALLOW_EXTENSIONS",
    "PI_GLOBAL_PI_DIR",
    "PI_SESSIONS_DIR",
    "PI_FORWARD_ENV",
]
EMPTY_FALLS_BACK += [
    "PI_DISPATCH_RUN_ROOTS",
    "PI_JOB_MEMORY",
    "PI_JOB_CPUS",
    "PI_WORKER_NAME",
    "PIDISPATCH_HOME",
]
EMPTY_FALLS_BACK += ["PIDISPATCH_RUN_DIR", "VALKEY_PASSWORD", "PIDISPATCH_UPSTREAM_OPENAI", "PI_MAX_COST_USD"]


@pytest.mark.parametrize("name", POSITIVE + NON_NEGATIVE + BOUNDED + EMPTY_FALLS_BACK)
def test_an_empty_text_means_the_default(name):
    assert settings(**{name: ""}) == settings()


FILES = [
    "PI_TRIGGERS_FILE",
    "PI_PAUSE_WINDOWS_FILE",
    "PI_SCOPED_LIMITS_FILE",
    "PI_PROJECTS_FILE",
    "PI_SETTINGS_FILE",
    "PIDISPATCH_EGRESS_FILE",
]


@pytest.mark.parametrize("refused", [NOT_ENFORCED_YET, ()])
@pytest.mark.parametrize("name", FILES)
def test_an_empty_file_name_is_refused(name, refused):
    assert problems(refused, **{name: ""}) == (
        f"{name} is ''; want the absolute path of a file, or no such variable",
    )


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "VALKEY_URL"])
def test_an_empty_address_does_not_start_an_embedded_server(name):
    (problem,) = problems(**{name: ""})

    assert problem.startswith(f"{name} is ''; want ")
    assert problem.endswith("or no such variable")


@pytest.mark.parametrize(
    "bounds",
    [
        {"PIDISPATCH_DISK_WARN": "1g"},
        {"PIDISPATCH_DISK_ADMIT": "6g"},
        {"PIDISPATCH_DISK_STOP": "3g"},
    ],
)
def test_bounds_of_disks_that_would_be_passed_in_another_order_are_refused(bounds):
    (problem,) = problems(**bounds)

    assert problem.endswith("want each at least as large as the next")


def test_egress_is_turned_off_only_with_a_reason():
    (problem,) = problems(PI_EGRESS="0")

    assert problem.startswith(
        "PI_EGRESS is 0, so a run may reach any public host: say why in PIDISPATCH_EGRESS_OFF_BECAUSE"
    )
    assert problems(PI_EGRESS="0", PIDISPATCH_EGRESS_OFF_BECAUSE="") == (problem,)
    found = settings(PI_EGRESS="0", PIDISPATCH_EGRESS_OFF_BECAUSE="a lab without secrets")
    assert (found.egress, found.egress_off_because) == (False, "a lab without secrets")


@pytest.mark.parametrize("name", sorted(NOT_ENFORCED_YET))
def test_what_is_not_enforced_yet_is_refused_and_not_ignored(name):
    assert problems(**{name: "9"}) == (f"{name} is set, and this version does not enforce it yet; unset it",)


def test_every_problem_is_told_at_once_and_each_on_one_line():
    found = problems(
        PI_CONCURRENCY="5x",
        PI_SESSIONS_DIR="/x",
        PI_MODEL="",
        PI_JOB_MEMORY="lots\nand lots",
        REDIS_URL="http://x",
    )

    assert sorted(problem.split()[0] for problem in found) == [
        "PI_CONCURRENCY",
        "PI_JOB_MEMORY",
        "PI_MODEL",
        "PI_SESSIONS_DIR",
        "REDIS_URL",
    ]
    assert len(str(ConfigurationRefused(found)).splitlines()) == 5
    assert ConfigurationRefused.exit_code == 2


@pytest.mark.parametrize(
    ("text", "micros"), [("5", 5_000_000), ("0.000001", 1), ("12.5", 12_500_000), ("1000000", 10**12)]
)
def test_dollars_are_whole_micro_dollars(text, micros):
    found = settings(PI_MAX_COST_USD=text)

    assert found.max_cost_micros == micros
    assert {row.name: row.value for row in describe(found)}["PI_MAX_COST_USD"] == text


@pytest.mark.parametrize(
    "text", ["0", "-1", "1,5", "1e3", "1e21", "NaN", "0.0000001", "1000000.01", " 5", "$5", "05"]
)
def test_what_is_no_amount_of_dollars_is_refused(text):
    (problem,) = problems(PI_DAILY_COST_USD=text)

    assert "PI_DAILY_COST_USD" in problem
    assert "dollars" in problem


def test_a_huge_text_makes_a_short_problem():
    (problem,) = problems(PI_MODEL=" " * 100_000)

    assert len(problem) < 400
    assert "(100000 characters)" in problem


OTHERS_NEVER_FORWARDED = {"PI_MODEL", "HOME", "PI_DISPATCH_GATE", "PIDISPATCH_HOME", "PATH", "LD_PRELOAD"}
OTHERS_NEVER_FORWARDED |= {"NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "BASH_ENV", "PI_CACHE_RETENTION"}


@pytest.mark.parametrize(
    "name", sorted(MINTED_NAMES | WORKER_SECRETS | all_key_names() | EGRESS_NAMES | OTHERS_NEVER_FORWARDED)
)
def test_a_name_that_the_box_must_not_get_from_the_host_is_not_forwarded(name):
    (problem,) = problems(PI_FORWARD_ENV=f"FINE, {name}")

    assert problem.startswith(f"PI_FORWARD_ENV is 'FINE, {name}'; want it without {name}: ")


def test_each_forge_has_its_token_names_among_the_refused():
    wanted = {"GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "GL_TOKEN", "FORGEJO_TOKEN", "GITEA_TOKEN"}
    wanted |= {"GITEA_SERVER_TOKEN", "AZURE_TOKEN", "AZURE_DEVOPS_EXT_PAT", "SYSTEM_ACCESSTOKEN"}

    assert wanted <= MINTED_NAMES


def test_a_value_put_beside_a_forwarded_name_is_not_printed():
    (problem,) = problems(PI_FORWARD_ENV="MY_KEY=sk-very-secret")

    assert "sk-very" not in problem
    assert "names of variables between commas, without their values" in problem


def test_the_overlay_directory_must_exist(tmp_path):
    assert settings((), PI_GLOBAL_PI_DIR=str(tmp_path)).global_pi_dir == tmp_path
    for text in (str(tmp_path / "typo"), "relative", __file__):
        (problem,) = problems((), PI_GLOBAL_PI_DIR=text)
        assert problem == f"PI_GLOBAL_PI_DIR is {text!r}; want the absolute path of a directory that exists"


def test_transcripts_are_kept_nowhere_by_default():
    assert settings().sessions_dir is None
    assert settings((), PI_SESSIONS_DIR="/srv/sessions").sessions_dir == Path("/srv/sessions")


@pytest.mark.parametrize(
    ("place", "environ", "home", "run_dir"),
    [
        (PERSON, {}, "/home/ada/.pidispatch", "/home/ada/.pidispatch/run"),
        (PERSON, {"XDG_RUNTIME_DIR": "/run/user/1000"}, "/home/ada/.pidispatch", "/run/user/1000/pidispatch"),
        (PERSON, {"XDG_RUNTIME_DIR": "relative"}, "/home/ada/.pidispatch", "/home/ada/.pidispatch/run"),
        (PERSON, {"PIDISPATCH_HOME": "/srv/p/"}, "/srv/p", "/srv/p/run"),
        (ROOT, {}, "/var/lib/pidispatch", "/run/pidispatch"),
        (ROOT, {"XDG_RUNTIME_DIR": "/run/user/0"}, "/var/lib/pidispatch", "/run/pidispatch"),
    ],
)
def test_home_and_run_directory_depend_on_who_runs_it(place, environ, home, run_dir):
    found = settings(_place=place, **environ)

    assert (str(found.home), str(found.run_dir)) == (home, run_dir)


def test_nothing_durable_lies_in_the_temp_directory():
    found = settings(TMPDIR="/tmp/x", PIDISPATCH_HOME="/srv/p")

    assert (str(found.jobs_dir), str(found.logs_dir)) == ("/srv/p/jobs", "/srv/p/logs")
    assert str(found.sandbox_dir) == "/srv/p/jobs/sandboxes"
    assert str(settings(PI_JOBS_DIR="/fast/jobs").sandbox_dir) == "/fast/jobs/sandboxes"


def test_a_user_without_a_home_directory_is_told_what_to_set():
    nobody = Place(uid=65534, user_home=None, host_name="desk")

    assert problems(_place=nobody)[0].startswith(
        "PIDISPATCH_HOME is unset, and this user has no home directory"
    )
    assert settings(_place=nobody, PIDISPATCH_HOME="/srv/p").run_dir == Path("/srv/p/run")


def test_a_run_directory_too_deep_for_a_socket_is_refused_by_name():
    deep = Place(uid=1000, user_home="/home/" + "a" * 90, host_name="desk")

    (problem,) = problems(_place=deep)

    assert problem.startswith("PIDISPATCH_RUN_DIR is '/home/aaa")
    assert "at most 83 bytes" in problem


def test_a_host_name_that_cannot_name_a_worker_asks_for_a_name():
    assert problems(_place=Place(uid=0, user_home=None, host_name=""))[0].startswith(
        "PI_WORKER_NAME is ''; want"
    )


def test_settings_cannot_be_changed_and_see_no_environment_of_their_own(monkeypatch):
    monkeypatch.setenv("PI_CONCURRENCY", "9")
    found = settings()

    assert found.concurrency == 3
    with pytest.raises(ValidationError):
        found.concurrency = 4


def test_every_default_is_of_the_type_of_its_field():
    found = settings()
    plain = {
        name: hint for name, hint in get_type_hints(type(found)).items() if hint in (int, str, bool, float)
    }

    assert len(plain) > 15
    assert all(type(getattr(found, name)) is hint for name, hint in plain.items())


def test_providers_have_their_own_addresses_and_apis():
    found = settings(
        PIDISPATCH_UPSTREAM_OPENAI="https://proxy.example:8443/v1/",
        PIDISPATCH_UPSTREAM_my_proxy="http://127.0.0.1:9",
        PIDISPATCH_PROVIDER_API_MY_PROXY="openai-completions",
    )

    assert found.upstreams == {"openai": "https://proxy.example:8443/v1", "my-proxy": "http://127.0.0.1:9"}
    assert found.provider_apis == {"my-proxy": "openai-completions"}


@pytest.mark.parametrize(
    "text", ["ftp://x", "x", "http://", "https://u:p@x", "https://x/?k=v", "https://x/#f", " http://x"]
)
def test_an_address_of_a_provider_that_is_no_plain_address_is_refused(text):
    (problem,) = problems(PIDISPATCH_UPSTREAM_OPENAI=text)

    assert problem.startswith(
        "PIDISPATCH_UPSTREAM_OPENAI is not accepted (its value is not shown); want an http:// or"
    )


def test_variables_of_providers_are_refused_by_their_own_names():
    found = problems(
        PIDISPATCH_PROVIDER_API_MINE="soap",
        PIDISPATCH_UPSTREAM_="http://x",
        PIDISPATCH_UPSTREAM_A_B="http://x",
        PIDISPATCH_UPSTREAM_a_b="http://y",
    )

    assert found == (
        "'PIDISPATCH_UPSTREAM_' names no provider; want PIDISPATCH_UPSTREAM_ and letters, digits or underscores",
        "PIDISPATCH_UPSTREAM_a_b and PIDISPATCH_UPSTREAM_A_B speak of one provider, a-b; want one of them",
        "PIDISPATCH_PROVIDER_API_MINE is 'soap'; want openai-completions or openai-responses or anthropic-messages",
    )


def test_each_row_says_where_its_value_came_from(tmp_path):
    dotenv = tmp_path / ".env"
    dotenv.write_text("PI_DAILY_CAP=5\nPI_MAX_TURNS=6\nPI_MODEL=m\nPIDISPATCH_UPSTREAM_OPENAI=http://x\n")
    environ = {"PI_DAILY_CAP": "7", "PI_MAX_TURNS": "", "PI_JOB_MEMORY": "1536m", "VALKEY_PASSWORD": "0" * 16}

    rows = {row.name: (row.value, row.source) for row in describe(load(environ, dotenv, place=PERSON))}

    assert rows["PI_DAILY_CAP"] == (7, Source.ENVIRONMENT)
    assert rows["PI_MAX_TURNS"] == (30, Source.DEFAULT)
    assert rows["PI_MODEL"] == ("m", Source.DOTENV)
    assert rows["PIDISPATCH_UPSTREAM_OPENAI"] == ("http://x", Source.DOTENV)
    assert rows["PI_JOB_MEMORY"] == ("1536m", Source.ENVIRONMENT)
    assert rows["PIDISPATCH_BALLAST"] == ("256m", Source.DEFAULT)
    assert rows["PI_LOGS_DIR"] == ("/home/ada/.pidispatch/logs", Source.DEFAULT)
    assert rows["VALKEY_PASSWORD"] == ("set", Source.ENVIRONMENT)
    assert rows["DATABASE_URL"] == (None, Source.DEFAULT)


def test_a_profile_is_split_at_its_first_colon_and_checks_leave_room_for_runs():
    found = settings(PI_WAIT_PROFILES="ci:/a:b,x:/c", PI_WAIT_CHECK_SLOTS="9", PI_CONCURRENCY="3")

    assert found.wait_programs == {"ci": "/a:b", "x": "/c"}
    assert found.check_slots == 2
    assert settings(PI_WAIT_CHECK_SLOTS="9", PI_CONCURRENCY="1").check_slots == 1
