"""Read `run`, in the order in which a person is to hear of problems."""

import re

from pidispatch.domain.forges.table import WITH_PROJECTS
from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.names import NAME_WANTED, is_name
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.text.jsonfile import Number, shown
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.extras import read_egress, read_priority
from pidispatch.domain.triggers.grammar.models import read_models
from pidispatch.domain.triggers.grammar.nearmiss import BACKEND, TOOLS, sweep
from pidispatch.domain.triggers.grammar.on import read_narrowing
from pidispatch.domain.triggers.grammar.part import Part
from pidispatch.domain.triggers.grammar.secrets import read_secrets
from pidispatch.domain.triggers.grammar.waitfor import read_wait
from pidispatch.domain.triggers.trigger import TriggerType, Work, path_bytes

INSTRUCTIONS_MAX = 2000
REPLICAS = (2, 3)
BACKENDS = ("local", "podman")
TOOL_NAMES = ("read", "bash", "powershell", "edit", "write", "grep", "find", "ls")
_FLOW = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_CONTROL_OF_IMAGES = re.compile("[\x00-\x1f\x7f-\x9f]")


def read_work(draft: Draft) -> Work:
    if draft.scheduled:
        _local_lane(draft)
    else:
        _forge_lane(draft)
    _box(draft)
    _prompt(draft)
    if not draft.scheduled:
        draft.work["repository"] = _repository(draft)
    draft.work["replicas"] = _replicas(draft)
    if draft.scheduled:
        read_narrowing(draft)
    read_secrets(draft)
    draft.work["backend"] = _backend(draft)
    draft.work["wait_for"] = read_wait(draft)
    draft.ask["excluded_tools"] = _tools(draft)
    read_models(draft)
    if draft.scheduled:
        draft.work["portfolio"] = _portfolio(draft.run)
    draft.ask["priority"] = read_priority(draft)
    draft.ask["egress_hosts"] = read_egress(draft)
    return Work(kind=draft.kind, ask=Ask(**draft.ask), **draft.work)


def _local_lane(draft: Draft) -> None:
    run, work, ask = draft.run, draft.work, draft.ask
    ask["command"] = _command(draft)
    work["folder"] = _folder(run)
    if ask["command"] is None:
        ask["flow"] = run.filled("flow", " (or use run.command)")
        work["task"] = run.filled("task")
    work["github"] = run.flag("github")


def _folder(run: Part) -> str:
    """Absolute, since a worker has no directory of the operator's to begin at, and no home of theirs."""
    folder = run.filled("folder")
    if not folder.startswith("/") or "\0" in folder:
        run.refuse(
            "folder", "must be an absolute path, written in full: ~ and relative paths name nothing here"
        )
    return folder


def _forge_lane(draft: Draft) -> None:
    run, ask = draft.run, draft.ask
    ask["command"] = _command(draft)
    if ask["command"] is None:
        flow = ask["flow"] = run.filled("flow", " (or use run.command)")
        if not _FLOW.fullmatch(flow):
            run.refuse("flow", "must be 1 to 64 of a-z, 0-9, - and _, with a letter or digit at both ends")
    if draft.type is TriggerType.COMMENT:
        first = draft.seen.comments.setdefault(draft.kind, draft.index)
        if first != draft.index:
            draft.on.refuse(
                "type", f"comment is that of triggers[{first}] already; {draft.kind} takes one only"
            )


def _command(draft: Draft) -> str | None:
    """The command, checked first, so that its entry is not told to add the flow that it leaves out."""
    run = draft.run
    if run.given("command") is None:
        return None
    if run.given("flow") is not None:
        run.refuse("command", "does not go with run.flow: an entry does one of the two")
    command = run.filled("command")
    if command != trim(command):
        run.refuse("command", "must not begin or end with space: it is used as it stands")
    if command.startswith("/"):
        run.refuse("command", "must not begin with a slash, which is put before it")
    if _CONTROL.search(command):
        run.refuse("command", "must not hold control characters; it is one line")
    if draft.scheduled:
        run.forbid(
            "task", "does not go with run.command, whose line is the whole prompt; put it into the line"
        )
    else:
        run.forbid("instructions", "does not go with run.command, whose line is the whole prompt")
    if draft.resumes:
        run.refuse("resume", "does not go with run.command yet; use a flow, or leave it out")
    return command


def _box(draft: Draft) -> None:
    run, ask = draft.run, draft.ask
    draft.work["packages"] = run.flag("packages")
    ask["image"] = _image(run)
    skills = run.trimmed("skillsDir")
    ask["skills_dir"] = None if skills is None else path_bytes(skills)
    if draft.scheduled and skills is not None and not skills.startswith("/"):
        run.refuse("skillsDir", "must be an absolute path")


def _image(run: Part) -> str | None:
    image = run.trimmed("image")
    if image is not None and image.startswith("-"):
        run.refuse("image", "must not begin with a dash, which would make it an option")
    if image is not None and _CONTROL_OF_IMAGES.search(image):
        run.refuse("image", "must not hold control characters")
    return image


def _prompt(draft: Draft) -> None:
    run = draft.run
    if draft.scheduled:
        run.forbid("instructions", "does not go with cron: put it at the top of run.task")
    text = run.filled_if_given("instructions")
    if text is not None and len(text.encode("utf-16-le")) > 2 * INSTRUCTIONS_MAX:
        run.refuse(
            "instructions", f"must have at most {INSTRUCTIONS_MAX} characters; put more into the flow itself"
        )
    draft.work["instructions"] = text
    draft.work["resume"] = run.flag("resume")
    if draft.scheduled and draft.resumes:
        run.refuse("resume", "does not go with cron yet: a run in a folder keeps no session; leave it out")


def _repository(draft: Draft) -> str | None:
    run = draft.run
    named = draft.type in {TriggerType.LABEL, TriggerType.COMMENT}
    needed = named and draft.forge.items_in_projects
    if not needed:
        run.forbid(
            "repository",
            f"goes with a label or comment of {WITH_PROJECTS} alone: here the event names its repository",
        )
        return None
    name = run.given("repository")
    if name is None:
        run.refuse(
            "repository",
            f"is missing: a work item of {draft.kind} belongs to a project and names no repository",
        )
    if (
        not isinstance(name.value, str)
        or not trim(name.value)
        or name.value != trim(name.value)
        or "/" in name.value
    ):
        run.refuse(
            "repository", "must be the name of a repository in the project, without slash or space around it"
        )
    return name.value


def _replicas(draft: Draft) -> int | None:
    run = draft.run
    node = run.given("replicas")
    if node is None:
        return None
    if draft.scheduled:
        run.refuse("replicas", "does not go with cron: all of them would work in the one folder")
    value = node.value.whole() if isinstance(node.value, Number) else None
    if value not in REPLICAS:
        run.refuse("replicas", "must be 2 or 3, written without quotes; leave it out for one")
    if draft.resumes:
        run.refuse("replicas", "does not go with run.resume: they would share one session")
    return value


def _backend(draft: Draft) -> str | None:
    """Where boxes run. None that we know is remote, so each can mount the folder of a schedule."""
    sweep((draft.run, draft.on), BACKEND)
    name = draft.run.filled_if_given("backend")
    if name is not None and not is_name(name):
        draft.run.refuse("backend", f"must be of {NAME_WANTED}")
    if name is not None and name not in BACKENDS:
        draft.run.refuse("backend", f"is unknown: {shown(name)}; known are {', '.join(BACKENDS)}")
    return name


def _tools(draft: Draft) -> tuple[str, ...] | None:
    run = draft.run
    sweep((run, draft.on), TOOLS)
    run.forbid("tools", "is not a field: tools can only be taken away, by name, in run.excludeTools")
    run.forbid("noTools", "is not a field: tools can only be taken away, by name, in run.excludeTools")
    if run.given("excludeTools") is None:
        return None
    tools = run.words("excludeTools", TOOL_NAMES, "tool of pi")
    if len(set(tools)) != len(tools):
        run.refuse("excludeTools", "names a tool twice")
    return tools


def _portfolio(run: Part) -> bool | None:
    value = run.flag("portfolio")
    if value and "command" in run.fields:
        run.refuse("portfolio", "does not go with run.command: a plan is a flow's to make")
    return value
