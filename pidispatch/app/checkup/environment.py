"""Check what is outside: Redis, the engine, the image, the gateway, the files of limits."""

from collections.abc import Iterator

from pidispatch import shipped
from pidispatch.app import egress
from pidispatch.app.checkup.providers import check_provider
from pidispatch.app.policy import FilePolicies
from pidispatch.app.prices import prices_problems
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


def check_prices(settings: Settings) -> Finding:
    """Read as a gateway that starts would."""
    if settings.prices_file is None:
        return Finding("prices", Grade.OK, "no file: the prices of genai-prices are in force")
    problems = prices_problems(settings)
    if problems:
        return Finding("prices", Grade.FAILED, "; ".join(problems), MEND.replace("worker", "gateway"))
    return Finding("prices", Grade.OK, f"{settings.prices_file} comes before the prices of genai-prices")


def check_egress(settings: Settings) -> Finding:
    """Read as a gateway that starts would."""
    try:
        found = egress.state(settings)
    except ConfigurationRefused as error:
        return Finding("egress", Grade.FAILED, "; ".join(error.problems), MEND)
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
