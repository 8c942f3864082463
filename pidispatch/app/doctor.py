"""Check everything that can be checked, and let no fault hide another."""

from collections.abc import Callable, Generator, Iterable, Iterator

from pidispatch.app.checkup.boxes import check_boxes
from pidispatch.app.checkup.disks import check_ballast, check_disks
from pidispatch.app.checkup.environment import (
    check_egress,
    check_engine,
    check_gateway,
    check_image,
    check_policy,
    check_prices,
    check_the_redis,
    check_triggers,
)
from pidispatch.app.checkup.providers import check_providers_file
from pidispatch.app.checkup.rows import check_rows, check_schema
from pidispatch.app.installation import Installation
from pidispatch.app.keeping import kept_to_read
from pidispatch.domain.health.checkup import Finding, Grade
from pidispatch.errors import PidispatchError
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.runs.transitions import Runs

__all__ = ["Finding", "Grade", "examine"]

LOOK_THERE = "see that it runs and that its address is right: `pidispatch config`"


def examine(here: Installation) -> Iterator[Finding]:
    """One finding after another, the environment first. Raises ConfigurationRefused before the first."""
    where, settings, engine = here.addresses, here.settings, here.runtime().engine
    database = here.any_database
    kept = kept_to_read(settings, database)
    yield from _found("limits", lambda: [check_policy(settings, kept)])
    yield from _found("triggers", lambda: [check_triggers(settings, kept)])
    yield from _found("prices", lambda: [check_prices(settings, kept)])
    yield from _found("providers file", lambda: check_providers_file(settings, kept))
    yield from _found("egress", lambda: [check_egress(settings, kept)])
    yield from _found("disks", lambda: [check_disks(settings, engine), check_ballast(settings)])
    yield from _found("redis", lambda: check_the_redis(where.redis))
    engine_answers = yield from _found("engine", lambda: [check_engine(engine)])
    if engine_answers:
        yield from _found("image", lambda: [check_image(engine, settings)])
    yield from _found("gateway", lambda: check_gateway(here.gateway, settings))
    if (yield from _found("schema", lambda: [check_schema(database)])):
        yield from _found("rows", lambda: check_rows(database, settings))
        if engine_answers:
            yield from _found("boxes", lambda: _boxes(here))


def _boxes(here: Installation) -> Iterator[Finding]:
    installation = Hosts(here.any_database, host=here.host).known_installation()
    if installation is None:
        return iter(())  # no worker was ever here, which has been said
    return check_boxes(
        here.runtime().boxes, Runs(here.any_database), host=here.host, installation=installation
    )


def _found(check: str, look: Callable[[], Iterable[Finding]]) -> Generator[Finding, None, bool]:
    """Yield what a check finds; a part that does not answer is a finding too. Returns whether nothing failed."""
    passed = True
    try:
        for finding in look():
            passed = passed and finding.grade is not Grade.FAILED
            yield finding
    except PidispatchError as error:
        yield Finding(check, Grade.FAILED, str(error), LOOK_THERE)
        return False
    return passed
