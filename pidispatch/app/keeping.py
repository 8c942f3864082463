"""Join the operator's files with where their last good content is kept, and tell what is in force."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pidispatch.app.egress import egress_file
from pidispatch.app.installation import Installation
from pidispatch.app.operatorfiles import overlay_file
from pidispatch.config import Settings
from pidispatch.domain.files.inforce import FileName, what_holds
from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.limits.windows import Cap, Unit
from pidispatch.domain.money import dollars
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import PidispatchError
from pidispatch.files.reading import place_of
from pidispatch.ports import KeptFiles
from pidispatch.store import schema
from pidispatch.store.database import Database
from pidispatch.store.keptfiles import FileOfHost, KeptFilesToRead, PostgresKeptFiles, files_of

MOST_TOLD = 50  # caps in one line of the log
OF_WORKERS = (FileName.SCOPED_LIMITS, FileName.PAUSE_WINDOWS, FileName.SETTINGS, FileName.TRIGGERS)
OF_GATEWAYS = (FileName.PRICES, FileName.PROVIDERS, FileName.EGRESS)


def kept_files(
    settings: Settings, database: Database, redactor: Redactor, names: Sequence[FileName]
) -> PostgresKeptFiles:
    """For a process that serves and reads `names`: no content that a known secret stands in is kept."""
    kept = PostgresKeptFiles(
        database, host=settings.worker_name, holds_secret=lambda content: redactor.data(content) != content
    )
    places = _places(settings)
    kept.read_alone({name: places.get(name) for name in names})
    return kept


def kept_to_read(settings: Settings, database: Database) -> KeptFiles | None:
    """For a command that only tells; None where the rows cannot be asked."""
    try:
        schema.require(database)
    except PidispatchError:
        return None
    return KeptFilesToRead(database, host=settings.worker_name)


def in_place_of(paths: Sequence[Path]) -> Mapping[Path, Sequence[str]]:
    """What holds in place of each of these files as it is now, where it is one that this host reads."""
    try:
        with Installation.here() as here:
            known = files_of(here.database, here.host)
    except PidispatchError:  # then nothing can be said of what is in force
        return {}
    return {path: sentences for path in paths if (sentences := list(_told(path, known)))}


def _told(path: Path, known: Sequence[FileOfHost]) -> Iterator[str]:
    for file in known:
        if place_of([path]) in file.place.split("\n"):
            found = file.found if file.found.problems else replace(file.found, problems=(f"{path}",))
            strict = file.name == FileName.SETTINGS
            yield f"{path}: not in force: {what_holds(found, strict=strict)}"


def _places(settings: Settings) -> dict[FileName, str]:
    """The files that this configuration names, whether they are there or not."""
    asked = {
        FileName.SCOPED_LIMITS: (settings.scoped_limits_file, settings.projects_file),
        FileName.PAUSE_WINDOWS: (settings.pause_windows_file,),
        FileName.SETTINGS: (overlay_file(settings),),
        FileName.TRIGGERS: (settings.triggers_file,),
        FileName.PRICES: (settings.prices_file,),
        FileName.PROVIDERS: (settings.providers_file,),
        FileName.EGRESS: (egress_file(settings) if settings.egress else None,),
    }
    found = {name: [path for path in paths if path is not None] for name, paths in asked.items()}
    return {name: place_of(paths) for name, paths in found.items() if paths}


def limits_in_words(policy: Policy | Refused) -> dict[str, Any]:
    """The limits in force, for the line that a worker logs at its start."""
    if isinstance(policy, Refused):
        return {"refused": policy.reason}
    return {
        "caps": [_cap_in_words(cap, policy.names) for cap in policy.every_cap()[:MOST_TOLD]],
        "caps_in_all": len(policy.every_cap()),
        "at_a_time": policy.concurrency,
        "at_a_time_of": {
            policy.names.get(key, key): row.concurrent
            for key, row in policy.by_scope.items()
            if row.concurrent is not None
        },
        "turns": policy.max_turns,
        "tokens": policy.max_tokens,
        "dollars_of_a_run": None if policy.max_cost_micros is None else dollars(policy.max_cost_micros),
        "models": policy.allowed_models,
    }


def _cap_in_words(cap: Cap, names: Mapping[str, str]) -> str:
    amount = f"${dollars(cap.cap)}" if cap.unit is Unit.MICROS else f"{cap.cap} {cap.unit}"
    return f"{names.get(cap.scope, cap.scope)}: {amount} a {cap.period}"
