"""Stands for `pi --mode rpc`: takes a prompt, replays a stream, answers get_session_stats, ends with its input.

    fake_pi.py STREAM RECORD MODE [what pi is given]

MODE: normal; huge (a line of 2 MB in between); flood (a line of 40 MB); deaf (reads nothing, says nothing);
hang (stops after the first turn until SIGTERM, then says `aborted`); die (says why on stderr, exits 1);
cut (its output ends in the middle of a line); noise (lines that are no records in between); ask (a question
first, then waits for the answer); refuse (refuses the prompt); unguarded (says that an extension failed, runs on);
held (dies after the first turn; a tool in a session of its own keeps its output open); held-talking (and writes to it);
held-settled (settles first); steered (waits for a steering message after the first turn, keeps it beside the record).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def emit(raw):
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()


def say(**record):
    emit(json.dumps(record, separators=(",", ":")).encode() + b"\n")


def read_command():
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def aborted(_number, _frame):
    say(type="message_end", message={"role": "assistant", "content": [], "stopReason": "aborted"})
    os._exit(143)


def big_line(size):
    return json.dumps(
        {"type": "tool_execution_end", "toolName": "bash", "result": "\u2028x" * (size // 7)}
    ).encode()


def main():
    stream, record, mode, *arguments = sys.argv[1:]
    if mode == "die":
        sys.stderr.write('Error: Unknown provider "nosuch". Use --list-models\n')
        sys.exit(1)
    if mode == "deaf":
        Path(record).write_text("{}")
        time.sleep(600)
    prompt = read_command()
    kept = {"arguments": arguments, "env": dict(os.environ), "prompt": prompt, "cwd": str(Path.cwd())}
    Path(record + ".new").write_text(json.dumps(kept))
    Path(record + ".new").rename(record)
    if mode == "refuse":
        say(
            type="response",
            id=prompt["id"],
            command="prompt",
            success=False,
            error="No API key found for scripted",
        )
    else:
        replay(stream, mode, Path(record + ".steer"))
    if mode == "held-settled":
        leave_a_tool(talking=True)
    while True:
        command = read_command()
        if command["type"] == "get_session_stats":
            usage = {"tokens": 1725, "contextWindow": 128000}
            say(
                type="response",
                id=command["id"],
                command=command["type"],
                success=True,
                data={"contextUsage": usage},
            )


def leave_a_tool(*, talking):
    chatter = "while :; do echo noise; sleep 0.05; done" if talking else "sleep 60"
    tool = ["timeout", "20", "sh", "-c", f"{chatter} & wait"]
    subprocess.Popen(tool, stdin=subprocess.DEVNULL, start_new_session=True)


def replay(stream, mode, steer):
    signal.signal(signal.SIGTERM, aborted)
    if mode == "unguarded":
        say(type="extension_error", extensionPath="guard.mjs", error="boom")
    if mode == "ask":
        say(type="extension_ui_request", id="q1", method="input")
        assert read_command() == {"type": "extension_ui_response", "id": "q1", "cancelled": True}
    lines = Path(stream).read_bytes().split(b"\n")
    for line in lines:
        if b'"get_session_stats"' in line:
            continue
        if line == lines[-1] and mode == "cut":
            emit(line)
            sys.exit(0)
        if line:
            emit(line + b"\n")
        if not line.startswith(b'{"type":"turn_end"'):
            continue
        if mode == "steered" and not steer.exists():
            steer.write_text(json.dumps(read_command()))
        if mode == "hang":
            time.sleep(600)
        if mode in ("held", "held-talking"):
            leave_a_tool(talking=mode == "held-talking")
            os._exit(1)
        if mode in ("huge", "flood"):
            emit(big_line(2_000_000 if mode == "huge" else 40_000_000) + b"\n")
        if mode == "noise":
            emit(
                b'\xff\x00not json\n[1]\nnull\n{"type":7}\n{"type":"message_end","message":3}\n'
                + b"[" * 50_000
                + b"\n\r\n"
            )


main()
