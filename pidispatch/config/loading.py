"""Turn `.env` and the environment into settings, or refuse with every problem at once."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pidispatch.config.kinds import Mark
from pidispatch.config.notyet import NOT_ENFORCED_YET, not_enforced
from pidispatch.config.place import Place, default_texts
from pidispatch.config.problems import problems_of
from pidispatch.config.providers import FAMILIES, family
from pidispatch.config.settings import FIELDS, Settings, is_marked
from pidispatch.config.sources import read_sources
from pidispatch.errors import ConfigurationRefused


def load(
    environ: Mapping[str, str],
    dotenv: Path | None,
    *,
    place: Place | None = None,
    refused: Collection[str] = NOT_ENFORCED_YET,
) -> Settings:
    """Read and check every setting; `environ` wins over the file `dotenv`, which may be missing.

    `place` says whose defaults to take (else this process's). Raises ConfigurationRefused with all problems, none
    of which shows a secret.
    """
    given, problems = read_sources(environ, dotenv)
    texts = {name: each.text for name, each in given.items()}
    unkept = dict(not_enforced(texts, refused))
    problems += unkept.values()

    values: dict[str, Any] = {
        name: text for name, text in texts.items() if _is_set(name, text) and name not in unkept
    }
    variables: dict[tuple[str, str], str] = {}
    for setting, prefix in FAMILIES.items():
        members = family(texts, prefix)
        problems += members.problems
        values[setting] = {provider: texts[name] for provider, name in members.variables.items()}
        variables |= {(setting, provider): name for provider, name in members.variables.items()}
    values["sources"] = {name: given[name].source for name in [*values, *variables.values()] if name in given}

    settings, faults = _settings(default_texts(texts, place or Place.here(environ)) | values, variables)
    if settings is not None and not settings.egress and settings.egress_off_because is None:
        faults.append(
            "PI_EGRESS is 0, so a run may reach any public host: say why in PIDISPATCH_EGRESS_OFF_BECAUSE, or unset it "
            "and list the hosts in egress-allowlist.conf"
        )
    if settings is not None and not settings.disk_warn >= settings.disk_admit >= settings.disk_stop:
        faults.append(
            "PIDISPATCH_DISK_WARN, PIDISPATCH_DISK_ADMIT and PIDISPATCH_DISK_STOP are bounds that are passed in this order: "
            "want each at least as large as the next"
        )
    if settings is None or problems or faults:
        raise ConfigurationRefused([*problems, *faults])
    return settings


def _is_set(name: str, text: str) -> bool:
    """Whether a text sets a setting: an empty one mostly means unset."""
    return name in FIELDS and (text != "" or is_marked(name, Mark.EMPTY_IS_SET))


def _settings(
    values: Mapping[str, Any], variables: Mapping[tuple[str, str], str]
) -> tuple[Settings | None, list[str]]:
    try:
        return Settings(**values), []
    except ValidationError as error:
        # Returned, not raised from here: pydantic's error would hang on ours, with the texts in it.
        return None, list(problems_of(error, values, variables))
