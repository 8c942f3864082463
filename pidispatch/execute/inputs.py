"""Write what a box reads: the prompt, the event, pi's own two files."""

from collections.abc import Mapping

from pidispatch.domain.agentfiles import agent_files
from pidispatch.domain.run import Job
from pidispatch.domain.task import task_text
from pidispatch.ports import ProviderFacts


def prompt(job: Job) -> bytes:
    """What pi is told: the task, behind the name of the skill to use if one was asked for."""
    text = task_text(job.task, job.task_bytes)
    if job.flow is not None:
        text = f"Use the skill `{job.flow}` for this task. The event that started it is in /job/event.json.\n\n{text}"
    return text.encode()


def job_files(job: Job, provider: ProviderFacts, skills: Mapping[str, bytes]) -> dict[str, bytes]:
    """Every file below /job, by its relative path. `skills` are those that the run is given, as the image looks for them."""
    agent = agent_files(job.provider, job.model, provider.api, known_to_pi=provider.known_to_pi)
    return {
        "prompt.md": prompt(job),
        "event.json": job.event,
        **{f"agent/{name}": content for name, content in agent.items()},
        **{f"skills/{name}": content for name, content in skills.items()},
    }
