"""Check what is outside: Redis, the engine, the image, the gateway, the files of limits."""

from collections.abc import Iterator

from pidispatch import shipped
from pidispatch.app.policy import FilePolicies
from pidispatch.app.standing import standing_triggers
from pidispatch.config import Settings
from pidispatch.domain.checkup import Finding, Grade
from pidispatch.domain.policy import Policy
from pidispatch.errors import ConfigurationRefused, GatewayUnavailable
from pidispatch.gateway.client import ControlDoors
from pidispatch.queue.broker import check_redis
from pidispatch.runtime import image
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import DockerImages

MEND = "mend it, `pidispatch check FILE` judges a file; a worker that started before keeps its last good edit, if any"
START_THE_GATEWAY = "start `pidispatch up`, or `python -m pidispatch.entrypoints.gateway` beside the worker"


def check_the_redis(url: str) -> Finding:
    """Raises QueueUnavailable."""
    problems = check_redis(url)
    if problems:
        return Finding(
            "redis", Grade.WARNING, "; ".join(problems), "a Redis that forgets makes runs start late"
        )
    return Finding("redis", Grade.OK, "answers, keeps an append-only file, evicts nothing")


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
    """Whether it has opened its doors, and whether it holds a key for the configured provider."""
    if not doors.ready():
        yield Finding("gateway", Grade.FAILED, "it does not answer as ready", START_THE_GATEWAY)
        return
    yield Finding("gateway", Grade.OK, "ready")
    try:
        facts = doors.provider(settings.provider)
    except GatewayUnavailable as error:
        yield Finding("provider", Grade.FAILED, str(error), START_THE_GATEWAY)
        return
    if facts is None or not facts.credential:
        lack = "does not know it" if facts is None else "has no key for it"
        way_out = "set its key and its address in the gateway's environment; docs/configuration.md names them"
        yield Finding("provider", Grade.WARNING, f"{settings.provider}: the gateway {lack}", way_out)
        return
    yield Finding("provider", Grade.OK, f"{settings.provider} by {facts.api}, with a key")


def check_policy(settings: Settings) -> Finding:
    """Read as a worker that starts would: it has no earlier edit that could stay in force."""
    policies = FilePolicies(settings)
    problems: tuple[str, ...] = ()
    try:
        policies.load()
        problems = policies.problems()
        policy = policies.current()
    except ConfigurationRefused as error:
        return Finding("limits", Grade.FAILED, "; ".join(error.problems), MEND)
    if isinstance(policy, Policy) and not problems:
        return Finding("limits", Grade.OK, f"windows with a cap: {len(policy.every_cap())}")
    reason = "" if isinstance(policy, Policy) else policy.reason
    return Finding("limits", Grade.FAILED, "; ".join(problems) or reason, MEND)


def check_triggers(settings: Settings) -> Finding:
    """Read as a worker that starts would."""
    if settings.triggers_file is None:
        return Finding("triggers", Grade.OK, "no file: nothing starts by itself")
    try:
        found = standing_triggers(settings).current()
    except ConfigurationRefused as error:
        return Finding("triggers", Grade.FAILED, "; ".join(error.problems), MEND)
    return Finding("triggers", Grade.OK, f"entries: {len(found.entries)}")
