"""Read a request body and bound what it may cost; the one place where all of its bytes are looked at.

A large body is judged in a process of its own (see `judges`), which has no key and no way out: a pattern at work on many
bytes holds the interpreter it runs in, and with it every other run's calls.
"""

import os
import pickle
import resource
import signal
import struct
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.providersfile import ModelFigures
from pidispatch.gateway.calls.bounding import Bound, RequestBounds
from pidispatch.gateway.calls.envelope import Envelope, NotARequest, read_envelope
from pidispatch.gateway.calls.prefixes import Trace

MOST_MEMORY = 1024**3
MOST_SECONDS = 30  # of work at one body; the hardest of the largest takes a few
POLITENESS = 5  # below the gateway, which has the answers of all runs to hand on
SIZES = struct.Struct(">II")


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be known beside the body: of which run, for which provider and model, and what was learned before."""

    run_id: int
    facts: ProviderFacts
    models: Mapping[str, ModelFigures]
    known: Mapping[Trace, int]
    around: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    envelope: Envelope
    bound: Bound


def judge(question: Question, body: bytes) -> Judged:
    """Raises NotARequest."""
    envelope = read_envelope(body, question.facts.api)
    bounds = RequestBounds()
    bounds.remember(question.run_id, question.known)
    facts, figures = question.facts, question.models.get(envelope.model)
    if figures is not None:
        # The longest answer of this model, where an operator's file says it.
        facts = replace(facts, max_tokens=figures.max_tokens)
    return Judged(envelope, bounds.of(question.run_id, facts, envelope, body, around=question.around))


def serve() -> None:
    """Answer questions on standard input until it ends, which it does with the gateway."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(POLITENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with os.fdopen(0, "rb", 0) as asked, os.fdopen(1, "wb", 0) as told:
        while (sizes := _exactly(asked, SIZES.size)) is not None:
            question, body = (_exactly(asked, size) for size in SIZES.unpack(sizes))
            if question is None or body is None:
                return
            end = int(time.process_time()) + 1 + MOST_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (end, resource.RLIM_INFINITY))
            answer = pickle.dumps(_answer(pickle.loads(question), body))  # noqa: S301 - the gateway's own words
            told.write(SIZES.pack(len(answer), 0) + answer)


def _answer(question: Question, body: bytes) -> Judged | NotARequest:
    try:
        return judge(question, body)
    except NotARequest as refusal:
        return refusal
    except (MemoryError, RecursionError):
        return NotARequest("the request has too many parts to be read")


def _exactly(source: BinaryIO, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = source.read(size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


if __name__ == "__main__":
    sys.exit("this module is started by the gateway")
