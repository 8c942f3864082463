"""Check what is outside: Redis, the engine, the image, the gateway, the files of limits."""

from collections.abc import Iterator, Sequence

from pidispatch import shipped
from pidispatch.app import egress
from pidispatch.app.checkup.providers import check_provider
from pidispatch.app.policy import FilePolicies
from pidispatch.app.prices import prices_problems
from pidispatch.app.standing import standing_triggers
from pidispatch.config import Settings
from pidispatch.domain.health.checkup import Finding, Grade
from pidispatch.domain.health.health import FaultWord, redis_faults
from pidispatch.domain.limits.policy import Policy
from pidispatch.errors import ConfigurationRefused, GatewayUnavailable
from pidispatch.gateway.client import ControlDoors
from pidispatch.ports import KeptFiles
from pidispatch.queue.server import INTERACTIVE, UNCHECKED, redis_facts
from pidispatch.runtime import image
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import DockerImages

MEND = "mend it, `pidispatch check FILE` judges a file; what was last good holds until then, where it says so"
START_THE_GATEWAY = "start `pidispatch up`, or `python -m pidispatch.entrypoints.gateway` beside the worker"


def check_the_redis(url: str) -> Iterator[Finding]:
    """Raises QueueUnavailable."""
    facts = redis_facts(url, within=INTERACTIVE)
    faults = list(redis_faults(facts))
    for fault in faults:
        grade = Grade.FAILED if fault.word is FaultWord.REDIS_UNWRITABLE else Grade.WARNING
        yield Finding("redis", grade, fault.sentence, fault.way_out)
    if None in {facts.policy, facts.append_only}:
        yield Finding("redis", Grade.WARNING, UNCHECKED, "a Redis that forgets makes runs start late")
    elif not faults:
        yield Finding("redis", Grade.OK, "answers, takes bells, keeps an append-only file, evicts nothing")


def check_engine(engine: Engine) -> Finding:
    """Raises EngineUnavailable."""
    return Finding("engine", Grade.OK, f"answers as {DockerImages(engine).engine_id()[:12]}")


def check_image(engine: Engine, settings: Settings) -> Finding:
    """A box made of a missing image, or of another architecture's, cannot start. Raises EngineUnavailable."""
    found = image.check(settings.job_image, image_dir=shipped.folder("image"), engine=engine)
    if found.ok:
        return Finding("image", Grade.OK, f"{found.tag} holds pi {found.pi_version}")
    facts = DockerImages(engine).facts(settings.job_image)
    unusable = facts is None or not facts.runs_here
    return Finding(
        "image", Grade.FAILED if unusable else Grade.WARNING, "; ".join(found.problems), found.way_out
    )


def check_gateway(doors: ControlDoors, settings: Settings) -> Iterator[Finding]:
    """Whether it has opened its doors, and can call the configured provider."""
    if not doors.ready():
        yield Finding("gateway", Grade.FAILED, "it does not answer as ready", START_THE_GATEWAY)
        return
    yield Finding("gateway", Grade.OK, "ready")
    try:
        yield from check_provider(doors, settings)
        busy = doors.busy_providers()
    except GatewayUnavailable as error:
        yield Finding("provider", Grade.FAILED, str(error), START_THE_GATEWAY)
        return
    for name, until in busy.items():
        words = f"{name} is busy until {until:%Y-%m-%d %H:%M:%SZ}: its calls are held, its runs wait"
        yield Finding("pressure", Grade.WARNING, words, "wait, or ask the provider for a higher limit")


def check_policy(settings: Settings, kept: KeptFiles | None = None) -> Finding:
    """Read as a worker that starts would: what was last good stands in for a bad edit, where it is kept."""
    policies = FilePolicies(settings, kept)
    try:
        policies.load()
        problems, policy = policies.problems(), policies.current()
    except ConfigurationRefused as error:
        return Finding("limits", Grade.FAILED, "; ".join(policies.problems() or error.problems), MEND)
    if isinstance(policy, Policy) and not problems:
        return Finding("limits", Grade.OK, f"windows with a cap: {len(policy.every_cap())}")
    reason = "" if isinstance(policy, Policy) else policy.reason
    return Finding("limits", Grade.FAILED, _bad(problems) or reason, MEND)


def _bad(problems: Sequence[str]) -> str:
    return "; ".join(f"not in force: {problem}" for problem in problems)


def check_triggers(settings: Settings, kept: KeptFiles | None = None) -> Finding:
    """Read as a worker that starts would."""
    if settings.triggers_file is None:
        return Finding("triggers", Grade.OK, "no file: nothing starts by itself")
    triggers = standing_triggers(settings, kept)
    if problems := triggers.problems():
        return Finding("triggers", Grade.FAILED, _bad(problems), MEND)
    return Finding("triggers", Grade.OK, f"entries: {len(triggers.current().entries)}")


def check_prices(settings: Settings, kept: KeptFiles | None = None) -> Finding:
    """Read as a gateway that starts would."""
    if settings.prices_file is None:
        return Finding("prices", Grade.OK, "no file: the prices of genai-prices are in force")
    problems = prices_problems(settings, kept)
    if problems:
        return Finding("prices", Grade.FAILED, _bad(problems), MEND.replace("worker", "gateway"))
    return Finding("prices", Grade.OK, f"{settings.prices_file} comes before the prices of genai-prices")


def check_egress(settings: Settings, kept: KeptFiles | None = None) -> Finding:
    """Read as a gateway that starts would."""
    try:
        found = egress.state(settings, kept)
    except ConfigurationRefused as error:
        return Finding("egress", Grade.FAILED, "; ".join(error.problems), MEND)
    if found.problems:
        return Finding("egress", Grade.FAILED, _bad(found.problems), MEND)
    listed = ", ".join(settings.provider_tools)
    tools = f"; providers may also run or fetch what {listed} names" if listed else ""
    if found.off_because is not None:
        return Finding(
            "egress",
            Grade.WARNING,
            f"off: a run may reach any public host, because: {found.off_because}{tools}",
            "list the hosts in egress-allowlist.conf, then unset PI_EGRESS",
        )
    if not found.found:
        return Finding("egress", Grade.OK, f"on, nothing is let through: there is no {found.file}{tools}")
    return Finding("egress", Grade.OK, f"on, hosts in {found.file}: {len(found.allowlist.entries)}{tools}")
