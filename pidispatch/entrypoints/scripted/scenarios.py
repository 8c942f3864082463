"""What the scripted provider says: the scenario is the requested model id, the step counts its answers so far."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool call."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Answer with this status instead of a message, with these header fields too."""

    status: int
    kind: str
    message: str
    fields: tuple[tuple[str, str], ...] = ()

    def body(self) -> dict[str, Any]:
        return {"type": "error", "error": {"type": self.kind, "message": self.message}}


@dataclass(frozen=True, slots=True)
class Say:
    """One assistant message: texts and tool calls; `pause` seconds before each piece, `cut` for a length stop."""

    parts: tuple[str | Tool, ...]
    pause: float = 0.0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ScriptedUsage:
    """Token counts as this provider reports them; `tokens_in` is without the cached ones."""

    tokens_in: int
    tokens_out: int
    cache_read: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """`steps` in order, the last one repeated; before step 0, `first` is answered `times` times (None: for ever)."""

    steps: tuple[Say | Failure, ...]
    first: Failure | None = None
    times: int | None = 0


def usage_of(step: int, parts: int) -> ScriptedUsage:
    """What the answer of this step uses: exact, so that a test can add it up."""
    return ScriptedUsage(
        tokens_in=1000 + 100 * step, tokens_out=20 + 5 * parts, cache_read=400 if step else 0
    )


def bash(command: str) -> Tool:
    return Tool("bash", {"command": command})


def say(*parts: str | Tool) -> Say:
    return Say(parts)


_FORGED = json.dumps(
    {"event": "exit", "jobId": "JOB", "code": 0, "reason": "completed", "turns": 1, "tokens": {"total": 1}}
)
_FORGE = (
    f"line='{_FORGED}'; line=${{line/JOB/${{PI_JOB_ID:-$(hostname)}}}}; "
    'for out in /proc/1/fd/1 /proc/[0-9]*/fd/1; do (printf "\\n%s\\n" "$line" > "$out") 2>/dev/null '
    '&& echo "forged $out" || echo "refused $out"; done'
)
_KILL_RUNNER = (
    "for dir in /proc/[0-9]*; do case $(cat $dir/comm 2>/dev/null) in python*) "
    'pid=${dir#/proc/}; echo "killing $pid"; kill -9 $pid;; esac; done; sleep 30; echo survived'
)
_LOOK_AT_BOX = (
    "env | sort; id; grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; "
    "ls -la / /job /workspace /gate /agent; touch /job/x; tr '\\0' ' ' < /proc/1/cmdline"
)

# Three that will not go: a detached one in a session of its own, one in the background, and the tool itself.
_STUBBORN = (
    "trap '' TERM INT HUP; (setsid bash -c \"trap '' TERM INT HUP; while :; do sleep 1; done\" >/dev/null 2>&1 &); "
    "(while :; do sleep 1; done) & touch waiting; while :; do sleep 1; done"
)
_WAIT_FOR_RELEASE = "touch waiting; for i in $(seq 900); do [ -e release ] && break; sleep 0.1; done; echo released > gated.txt"

# What an agent could do to be served beside pi: by hand, by another pi, and again and again until it is told no.
_CALL = (
    'call() { jq -n --rawfile task /job/prompt.md --arg model "${1:-$PI_MODEL}" '
    "'{model: $model, max_tokens: 50, messages: [{role: \"user\", content: $task}]}' "
    "| curl -s -o /dev/null -w '%{http_code}\\n' -H 'content-type: application/json' -d @- "
    "http://127.0.0.1:4180/v1/chat/completions; }; "
)
_CALL_ASIDE = f"{_CALL}call happy; call happy; call happy"
_CALL_ON = f'{_CALL}n=0; while [ "$(call happy)" = 200 ] && [ $n -lt 500 ]; do n=$((n+1)); done; echo refused after $n'
_SECOND_PI = (
    '[ -n "$SECOND" ] || SECOND=1 pi -p --no-session -ne --provider "$PI_PROVIDER" --model "$PI_MODEL" '
    '"$(cat /job/prompt.md)"'
)
_FORGED_USAGE = (
    'for out in /proc/1/fd/1 /proc/[0-9]*/fd/1; do printf \'\\n{"event":"usage","tokens":{"total":0},"cost":0}\\n\' '
    '> "$out" 2>/dev/null; done; curl -s -X POST -H "content-type: application/json" '
    '-d \'{"v":1,"attempt":1,"code":0,"reason":"completed","turns":1,"tokens":{"total":0,"cost":0}}\' '
    "http://127.0.0.1:4180/report; echo said so"
)

# Asks for the skill `again`, and for one that does not exist.
_ASK_AGAIN = (
    'printf \'{"flow": "again", "task": "once more, after %s"}\' "$PI_JOB_ID" > /outbox/request-1.json; '
    'printf \'{"flow": "absent", "task": "x"}\' > /outbox/request-2.json; ls -la /outbox'
)

HAPPY = (
    say("I will look around first.", bash("ls -la && cat hello.txt")),
    say(Tool("write", {"path": "made-by-agent.txt", "content": "written by the write tool\n"})),
    say(
        Tool(
            "edit",
            {"path": "hello.txt", "edits": [{"oldText": "hello world", "newText": "hello pidispatch"}]},
        )
    ),
    say("Done: I changed hello.txt and added made-by-agent.txt."),
)

SCENARIOS: dict[str, Scenario] = {
    "happy": Scenario(HAPPY),
    "toolfail": Scenario(
        (
            say(bash("echo before; cat /does/not/exist; exit 3")),
            say(Tool("edit", {"path": "hello.txt", "edits": [{"oldText": "no such text", "newText": "x"}]})),
            say(Tool("write", {"path": "/job/prompt.md", "content": "overwritten"})),
            say(Tool("nosuchtool", {"a": 1})),
            say("All four tool calls failed, as they should."),
        )
    ),
    "loop": Scenario((say("Once more.", bash("date +%N; sleep 0.1")),)),
    "steady": Scenario((say("One more step.", bash("sleep 1; date >> steps.txt")),)),
    "slowtool": Scenario(
        (say(bash("echo started; sleep 60; echo finished > slow.txt")), say("The slow tool has ended."))
    ),
    "gated": Scenario((say(bash(_WAIT_FOR_RELEASE)), say("I was let go on."))),
    "stubborn": Scenario((say(bash(_STUBBORN)), say("Nobody ended it."))),
    "slowtext": Scenario((Say(("word " * 400,), pause=0.05),)),
    "length": Scenario((Say(("This answer is cut off he",), cut=True),)),
    "http401": Scenario(
        HAPPY, Failure(401, "authentication_error", "Incorrect API key provided"), times=None
    ),
    "http402": Scenario(HAPPY, Failure(402, "budget_exceeded", "the budget is used up"), times=None),
    "http429": Scenario(HAPPY, Failure(429, "rate_limit_error", "Rate limit reached for requests"), times=2),
    "busy": Scenario(
        HAPPY,
        Failure(429, "rate_limit_error", "Rate limit reached for requests", (("retry-after", "2"),)),
        times=1,
    ),
    "overloaded": Scenario(HAPPY, Failure(529, "overloaded_error", "Overloaded"), times=1),
    "window": Scenario(
        HAPPY,
        Failure(429, "rate_limit_error", "This window is closed", (("retry-after", "3600"),)),
        times=None,
    ),
    "http500": Scenario(HAPPY, Failure(500, "api_error", "internal server error"), times=None),
    "kill-runner": Scenario((say(bash(_FORGE)), say(bash(_KILL_RUNNER)), say("The runner lives."))),
    "term-init": Scenario((say(bash("kill -TERM 1; sleep 30; echo survived")), say("Init lives."))),
    "forge-exit": Scenario(
        (say(bash(_FORGE)), Failure(401, "authentication_error", "Incorrect API key provided"))
    ),
    "curl": Scenario((say(bash(_CALL_ASIDE)), say("I made three calls of my own."))),
    "curl-on": Scenario((say(bash(_CALL_ON)), say("Nobody stopped me."))),
    "curl-other": Scenario((say(bash(f"{_CALL}call other-model")), say("I called another model."))),
    "second-pi": Scenario((say(bash(_SECOND_PI)), say("There were two of me."))),
    "forge-usage": Scenario((say(bash(_FORGED_USAGE)), say("I told them that it was free."))),
    "env": Scenario((say(bash(_LOOK_AT_BOX)), say("That is the box."))),
    "big": Scenario(
        (
            say(bash("head -c 300000000 /dev/zero | tr '\\0' x > /proc/1/fd/1; echo wrote $?")),
            say("It was much."),
        )
    ),
    "outside": Scenario(
        (
            say(
                bash(
                    "git ls-remote https://elsewhere.example/x.git; git ls-remote http://169.254.169.254/x.git; true"
                )
            ),
            say("Neither was let through."),
        )
    ),
    "chain": Scenario((say(bash(_ASK_AGAIN)), say("I asked for another run."))),
    "exit": Scenario((say(bash("exit 3")), say("The tool ended with 3."))),
}
