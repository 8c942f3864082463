"""The story of one run in the box: settings, go, pi, report, exit line, exit code."""

# ruff: noqa: PTH100, PTH120
# pathlib costs milliseconds to import.

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import exitline
from .command import pi_command, pi_env, pi_version, read_forwarded, read_prompt, session_size
from .decide import INFRA, NO_GO, POLICY, TERMINATED, Verdict, decide
from .fold import START, Folded, step
from .forward import PORT, Forwarder
from .gate import GO_SECONDS, REPORT_SECONDS, NoGo, ask_go, send_report
from .init import RUNNER_GRACE
from .landing import Near, steer, watch
from .layers import has_skill, skill_folders, system_prompts
from .narrate import narrate
from .pi import DeadlinePassed, Pi
from .process import compile_cache, hide_from_same_user
from .settings import ConfigError, Settings, parse
from .summary import notes, summary

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STATS_SECONDS = 5.0
_LAST_REPORT_SECONDS = 1.0


class Places(NamedTuple):
    """Where things are; tests give others. `go_seconds` bounds how long the gateway is waited for."""

    pi: tuple[str, ...] = ("/usr/local/bin/node", f"{_HOME}/pi/dist/bundle/cli.js")
    job: str = "/job"
    session: str = "/session/current.jsonl"
    cwd: str = "/workspace"
    port: int = PORT
    cache: str = f"{_HOME}/v8cache"
    go_seconds: float = GO_SECONDS
    grace: float = RUNNER_GRACE  # the worker enforces the deadline; ours is the backstop


class Terminated(BaseException):
    """SIGTERM came; raised once, in the main thread."""


def main() -> None:
    """What the image's entrypoint calls."""
    hide_from_same_user()
    code = run(os.environ, Places())
    sys.stdout.flush()
    os._exit(code)  # daemon threads may still hold connections; nothing is left to clean


def run(env: Mapping[str, str], places: Places) -> int:
    """The box's exit code; the exit line has been written."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _terminate)
    job_id = env.get("PI_JOB_ID", "")
    try:
        settings = parse(env)
        Forwarder(settings.gate, port=places.port)
        key = ask_go(settings.gate, settings.attempt, socket.gethostname(), seconds=places.go_seconds)
        return Run(settings, places, env, key).finish()
    except ConfigError as error:
        return _without_go(job_id, Verdict(POLICY, "config", str(error)))
    except NoGo as error:
        return _without_go(job_id, Verdict(NO_GO, "no-go", str(error)))
    except OSError as error:
        return _without_go(job_id, Verdict(INFRA, "infra", f"cannot listen on port {places.port}: {error}"))
    except Terminated:
        return _without_go(job_id, Verdict(TERMINATED, "terminated"))
    except Exception as error:  # noqa: BLE001 - a fault of ours still ends with a line that names it
        return _without_go(job_id, Verdict(INFRA, "infra", repr(error)))


def _without_go(job_id: str, verdict: Verdict) -> int:
    fields = {"code": verdict.code, "reason": verdict.reason}
    if verdict.message:
        fields["message"] = exitline.cap_message(verdict.message)
    exitline.write(exitline.line("exit", job_id, fields))
    return int(verdict.code)


def _terminate(_number: int, _frame: object) -> None:
    _ignore_signals()
    raise Terminated


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


class Run:
    """One run that has its go. `folded` is what was seen so far, also when the end comes from outside."""

    def __init__(self, settings: Settings, places: Places, env: Mapping[str, str], key: str) -> None:
        self._settings, self._places, self._env, self._key = settings, places, env, key
        self._session_size = session_size(places.session)
        self.folded: Folded = START
        self._pi: Pi | None = None
        self._skill_missing = False
        self._working = False  # between the prompt and pi's end: only then there is somebody to steer

    def finish(self) -> int:
        """Drive pi to its end, however it comes, then report and write the exit line once."""
        try:
            how = self._drive()
            _ignore_signals()
        except Terminated:
            how = "terminated"
        except (OSError, ValueError) as error:
            _ignore_signals()
            return self._say(Verdict(INFRA, "infra", str(error)), REPORT_SECONDS)
        self._end_pi(how)
        words = self._pi.last_words() if self._pi and how == "ended" else ""
        verdict = decide(self.folded, how, words)
        return self._say(verdict, _LAST_REPORT_SECONDS if how == "terminated" else REPORT_SECONDS)

    def _drive(self) -> str:
        """How it ended: settled, handled, ended, unguarded or deadline."""
        prompt = read_prompt(self._places.job)
        pi = self._pi = self._start_pi()
        pi.deadline = time.monotonic() + self._settings.deadline + self._places.grace
        pi.send({"id": "prompt", "type": "prompt", "message": prompt})
        self._working = True
        watch(self._settings.gate, self._land)
        how = "ended"
        try:
            for event in pi.records():
                self._note(event)
                if how == "ended" and (found := self._ended_by(event)) is not None:
                    how, self._working = found, False
                    if how == "unguarded":
                        break
                    pi.deadline = time.monotonic() + _STATS_SECONDS
                    pi.send({"id": "stats", "type": "get_session_stats"})
                elif how != "ended" and event.get("id") == "stats":
                    break
        except DeadlinePassed:
            return "deadline" if how == "ended" else how
        return how

    def _start_pi(self) -> Pi:
        session = None if self._session_size is None else self._places.session
        skills = skill_folders(self._places.job, self._places.cwd)
        # Before the agent starts: what it writes later is no skill that it was given.
        self._skill_missing = self._settings.flow is not None and not has_skill(skills, self._settings.flow)
        command = pi_command(
            self._places.pi,
            self._settings,
            f"{_HOME}/runner/guard.mjs",
            session,
            prompts=system_prompts(f"{_HOME}/floor", self._places.cwd, chains=self._settings.chains),
            skills=skills,
        )
        cache = compile_cache(self._places.cache, "/tmp/.v8cache")
        env = pi_env(self._env, cache, read_forwarded(self._places.job))
        return Pi(command, env=env, cwd=self._places.cwd)

    def _ended_by(self, event: dict[str, Any]) -> str | None:
        # guard.mjs is the only extension. Without it a run has no limits in here, so the run ends.
        if event.get("type") == "extension_error" or self.folded.turns > self._settings.max_turns:
            return "unguarded"
        if event.get("type") == "agent_settled":
            return "settled"
        if self.folded.handled or self.folded.prompt_error is not None:
            return "handled"
        return None

    def _note(self, event: dict[str, Any]) -> None:
        """Add one event up, and tell the log's readers of it."""
        before = self.folded
        self.folded = step(before, event)
        if event.get("type") == "extension_ui_request" and self._pi is not None:
            # Nobody is there to answer; unanswered, the run would wait until its deadline.
            self._pi.send({"type": "extension_ui_response", "id": event.get("id"), "cancelled": True})
        exitline.write(narrate(event).encode())
        if self.folded.retries > before.retries:
            self._tell("pi_auto_retry", attempt=event.get("attempt"), maxAttempts=event.get("maxAttempts"))
        if self.folded.limit and not before.limit:
            self._tell_limit()

    def _land(self, near: Near) -> None:
        """A cap is near: steer pi towards an end, once. Runs in the thread that watches the budget."""
        if not self._working or self._pi is None:
            return
        self._pi.send(steer(near))
        self._tell("budget_landing", of=near.of, share=near.share, used=near.used, cap=near.cap)

    def _tell_limit(self) -> None:
        if self.folded.limit == "max_turns":
            self._tell("turn_budget_exceeded", turns=self.folded.turns, maxTurns=self._settings.max_turns)
        else:
            total = self.folded.tokens.total
            self._tell("token_budget_exceeded", tokens=total, maxTokens=self._settings.max_tokens)

    def _tell(self, event: str, **fields: object) -> None:
        exitline.write(exitline.line(event, self._settings.job_id, fields))

    def _end_pi(self, how: str) -> None:
        if self._pi is None:
            return
        if how == "terminated":
            self._pi.terminate()
        elif how in ("deadline", "unguarded"):
            self._pi.kill()
        else:
            self._pi.close()

    def _say(self, verdict: Verdict, seconds: float) -> int:
        """Report, then the exit line: whoever reads the line finds the report already kept."""
        message = exitline.cap_message(verdict.message) if verdict.message else None
        said = summary(self.folded, verdict, message, self._session())
        noticed = notes(self.folded, skill_missing=self._skill_missing)
        report = {
            "v": 1,
            "attempt": self._settings.attempt,
            "pi": pi_version(self._places.pi),
            **said,
            "notes": noticed,
        }
        send_report(self._settings.gate, self._key, report, seconds=seconds)
        fields = {**said, "truncated": verdict.truncated or None}
        exitline.write(exitline.line("exit", self._settings.job_id, fields))
        return int(verdict.code)

    def _session(self) -> dict[str, Any] | None:
        if self._session_size is None:
            return None
        resumed = self._session_size > 0
        return {"resumed": resumed, "reason": "resumed" if resumed else "absent"}
