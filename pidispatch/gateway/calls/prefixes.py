"""Remember how many tokens the provider counted in a run's earlier requests, so that what was added is all to be bounded.

Whole elements of the conversation are compared, and all else of the request must be the same: a request that only goes
on from an earlier one uses at most what that one used, and what was added. A prefix of bytes would not do: what stands in
it may have been overruled or left out in the earlier request by something that came later in it.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from pidispatch.gateway.wire.scanning import Span

MOST_RUNS = 1_024
MOST_REQUESTS = 16

# pi marks the end of the conversation for the provider's cache, and moves the mark on: it is no text of the prompt. Text
# in which it is only quoted has backslashes before these quotes.
_MARK = re.compile(rb',"cache_control":\{"type":"ephemeral"(?:,"ttl":"(?:5m|1h)")?\}')


@dataclass(frozen=True, slots=True)
class Trace:
    """A request as it is remembered: how many elements it has, and what they and the rest of it are."""

    count: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """An earlier request that this one goes on from: its elements, the tokens it had, bytes that were not compared."""

    count: int
    tokens: int
    marks: int


class Prefixes:
    """What each run's last requests were counted as. Thread-safe; what is forgotten only makes bounds looser."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[int, OrderedDict[Trace, int]] = OrderedDict()

    def find(
        self, run_id: int, rest: Sequence[bytes], body: bytes, spans: Sequence[Span]
    ) -> tuple[Trace, PrefixMatch | None]:
        """How to remember this request, and the longest one that it goes on from."""
        known = self.known(run_id)
        counts = {trace.count for trace in known}
        running = blake2b(digest_size=20)
        for part in rest:
            _feed(running, part)
        marks, match, is_marked = 0, None, b'"cache_control"' in body
        for count, (start, end) in enumerate(spans, 1):
            plain = _MARK.sub(b"", body[start:end]) if is_marked else body[start:end]
            marks += end - start - len(plain)
            _feed(running, plain)
            if count in counts and (tokens := known.get(Trace(count, running.digest()))) is not None:
                match = PrefixMatch(count, tokens, marks)
        return Trace(len(spans), running.digest()), match

    def known(self, run_id: int) -> dict[Trace, int]:
        with self._lock:
            return dict(self._runs.get(run_id, ()))

    def learn(self, run_id: int, trace: Trace, tokens: int) -> None:
        with self._lock:
            requests = self._runs.setdefault(run_id, OrderedDict())
            # Counted anew it may have come out lower, another server's count say: the higher one stays.
            requests[trace] = max(tokens, requests.pop(trace, 0))
            self._runs.move_to_end(run_id)
            if len(requests) > MOST_REQUESTS:
                requests.popitem(last=False)
            if len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)

    def forget(self, run_id: int) -> None:
        with self._lock:
            self._runs.pop(run_id, None)


def _feed(running: blake2b, part: bytes) -> None:
    running.update(b"%d:%b" % (len(part), part))
