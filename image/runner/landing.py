"""Hear from the gateway that a cap is near, and word it for the agent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .gate import get

_WAIT_SECONDS = 50
_PAUSE_SECONDS = 2.0  # between two questions, also after one that nobody answered
_MICROS = 1_000_000


class Near(NamedTuple):
    """How much of which cap is used: `of` is cost (micro-dollars), tokens or turns."""

    of: str
    share: float
    used: int
    cap: int


def watch(gate: str, tell: Callable[[Near], None]) -> None:
    """Ask in a thread of its own until a cap is near, then tell once. Whatever fails here, the run goes on."""
    threading.Thread(target=_watch, args=(gate, tell), daemon=True).start()


def _watch(gate: str, tell: Callable[[Near], None]) -> None:
    try:
        while True:
            answer = get(gate, f"/budget?wait={_WAIT_SECONDS}&seen=0", _WAIT_SECONDS + 10.0)
            if answer is not None and answer.status == 404:
                return
            near = read(answer.body) if answer is not None and answer.status == 200 else None
            if near is not None:
                tell(near)
                return
            time.sleep(_PAUSE_SECONDS)
    except Exception:  # noqa: BLE001 - a courtesy; the caps hold without it
        return


def read(body: bytes) -> Near | None:
    """None while no cap is near, and for what is no such answer."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("landing") is not True:
        return None
    names = {"cost": "micros", "tokens": "tokens", "turns": "turns"}
    of, share = said.get("of"), said.get("share")
    if not isinstance(of, str) or of not in names or not isinstance(share, int | float):
        return None
    used, cap = said.get(names[of]), said.get("cap_" + names[of])
    if not isinstance(used, int) or not isinstance(cap, int):
        return None
    return Near(of, float(share), used, cap)


def steer(near: Near) -> dict[str, Any]:
    """The RPC command; pi hands it to the model after the tool calls under way."""
    return {"id": "landing", "type": "steer", "message": words(near)}


def words(near: Near) -> str:
    what = {"cost": "the money", "tokens": "the tokens", "turns": "the turns"}[near.of]
    left = max(0, near.cap - near.used)
    used, cap, rest = (_amount(near.of, number) for number in (near.used, near.cap, left))
    return (
        f"A note from pidispatch, which runs you: {used} of {cap}, {what} that this run may use, are used; {rest} are left. "
        "At the limit the run is stopped in the middle of whatever it does. So come to an end now: finish the step you are "
        "at, begin nothing new, leave the work tree in order (nothing half-written, what is done committed if you were "
        "told to commit), and close with a short list of what is done and what is left to do."
    )


def _amount(of: str, number: int) -> str:
    return f"${number / _MICROS:.2f}" if of == "cost" else f"{number:,}"
