"""Name what a model call asks for, what it may use at most, and what it came to."""

from dataclasses import dataclass
from datetime import datetime

from pidispatch.domain.providers.rates import CostClass, Doubt, Rating


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What the gateway knows of a provider: its wire API, whether pi knows it by itself, whether a key is set.

    `rating`, `context_window` and `max_tokens` are of the model that was asked about; the last two in tokens, None
    where an operator's file does not say. `busy_until`: until then calls of that model are held back. `lacks` is the word for a
    key that is missing, `key_source` where it was found, for people (None: none is needed, or there is none);
    `model_listed`: an operator's file names the model.
    """

    name: str
    api: str
    known_to_pi: bool
    credential: bool
    rating: Rating = Rating.UNKNOWN
    busy_until: datetime | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool | None = None
    model_listed: bool = False
    lacks: str | None = None
    key_source: str | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the gateway needs to know of a run it opens a door for. `egress`: hosts it may reach besides those of all."""

    run_id: int
    public_id: str
    attempt: int
    provider: str
    egress: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How one model call ended, as the gateway measured it.

    `status` is the upstream's HTTP status (0: no answer), `stop_reason` one of stop, tool_use, length, error,
    aborted or None. Tokens are counts; `tokens_in` leaves cached ones out, `cache_write` includes `cache_write_1h`.
    `measured` is false when the provider's last word is missing, or is in `doubt`: the numbers are then the most that the
    call may have used, but for those of the input where `input_told`.
    """

    status: int
    stop_reason: str | None
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    measured: bool = True
    cache_write_1h: int = 0
    input_told: bool = False
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Worst:
    """What a call may use at most, in micro-dollars and tokens; `least_*` with its output as short as it may be made.

    Micros None: no price is known, so nothing can be said. `others` are the models that may answer besides the one that
    was asked for; None: nobody can tell.
    """

    micros: int | None = None
    least_micros: int | None = None
    tokens: int = 0
    least_tokens: int = 0
    others: tuple[str, ...] | None = ()


NOTHING_KNOWN = Worst()


@dataclass(frozen=True, slots=True)
class CallOpened:
    """The call's row is committed. It may use `micros` and `tokens`, between its least and its most; None: no cap."""

    call_id: int
    micros: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The run may not make this call.

    closed: it is not live, asked to stop, or has no go; stopped: an operator stopped all calls; model-not-allowed;
    model-policy-unenforceable: there is a list of models, and nobody can tell which would answer;
    turn-cap, token-cap, cost-cap: it would pass the run's cap; cost-cap-unenforceable: there is a cap and no price.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call came to: micro-dollars (None without a price), how sure that is, and by which prices."""

    micros: int | None
    cost_class: CostClass
    version: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run has used of its caps, settled and held; a cap of None is no cap. Micro-dollars, tokens, calls.

    `held_*` is the part of it that calls under way hold: the most they may come to.
    """

    micros: int
    cap_micros: int | None
    tokens: int
    cap_tokens: int | None
    turns: int
    cap_turns: int | None
    held_micros: int = 0
    held_tokens: int = 0
