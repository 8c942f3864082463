"""Write what a box reads: the prompt, the event, pi's own two files, the variables that are forwarded."""

import json
from collections.abc import Mapping

from pidispatch.domain.agentfiles import agent_files
from pidispatch.domain.run import Job
from pidispatch.domain.session import Staged
from pidispatch.domain.task import task_text
from pidispatch.ports import ProviderFacts

ENVIRONMENT = "env.json"

# The task is told again, since the agent could write to the conversation: these are the operator's own words.
RESUMED = (
    "You were stopped at a limit while you worked on the task below; the conversation so far is yours. You were given "
    "more, so go on: look at how the work tree stands, for the last step may be half done, and finish the task."
)
WORK_TREE_ONLY = (
    "An earlier run worked on the task below in this folder and was stopped at a limit; its conversation is not at hand. "
    "Look at how the work tree stands, for the last step may be half done, and finish the task."
)


def prompt(job: Job, session: Staged) -> bytes:
    """What pi is told: the task, behind the name of the skill to use if one was asked for."""
    text = task_text(job.task, job.task_bytes)
    if job.ask.flow is not None:
        text = f"Use the skill `{job.ask.flow}` for this task. The event that started it is in /job/event.json.\n\n{text}"
    # A command is the whole prompt: with anything before its slash it would be none.
    if job.continues is not None and job.ask.command is None:
        text = f"{RESUMED if session.resumed else WORK_TREE_ONLY}\n\n{text}"
    return text.encode()


def job_files(
    job: Job,
    provider: ProviderFacts,
    session: Staged,
    *,
    forwarded: Mapping[str, str],
    skills: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Every file below /job, by its relative path. `skills` are those that the run is given, as the image looks for them."""
    agent = agent_files(
        job.terms.provider,
        job.terms.model,
        provider.api,
        known_to_pi=provider.known_to_pi,
        context_window=provider.context_window,
        max_tokens=provider.max_tokens,
        reasoning=provider.reasoning,
    )
    return {
        "prompt.md": prompt(job, session),
        "event.json": job.event,
        **{f"agent/{name}": content for name, content in agent.items()},
        **{f"skills/{name}": content for name, content in skills.items()},
        # A file and no variable of the container: `docker inspect` shows those.
        **({ENVIRONMENT: json.dumps(forwarded).encode()} if forwarded else {}),
    }
