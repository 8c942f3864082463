"""Name the kinds of value a setting can have, each with the grammar of its text."""

from datetime import timedelta
from enum import Enum, StrEnum, auto
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, SecretStr

from pidispatch.config import grammar, urls
from pidispatch.config.forwarding import forwarded_names
from pidispatch.config.grammar import COUNT_MAX, DAYS_MAX, HOURS_MAX, MINUTES_MAX, whole
from pidispatch.config.providers import provider_api
from pidispatch.domain.text.address import TcpAddress, UnixAddress


class Mark(Enum):
    EMPTY_IS_SET = auto()
    """An empty text is a value (which its grammar refuses), where elsewhere it means unset."""
    HIDDEN = auto()
    """A text that was refused may hold a secret; an accepted one is printed without it."""
    SECRET = auto()
    """Never printed: shown as `set` or `unset`."""
    SIZE = auto()
    """Bytes, printed as a size."""
    DOLLARS = auto()
    """Micro-dollars, printed as dollars."""


Positive = Annotated[int, BeforeValidator(partial(whole, minimum=1))]
Count = Annotated[int, BeforeValidator(partial(whole, minimum=1, maximum=COUNT_MAX))]
NonNegative = Annotated[int, BeforeValidator(partial(whole, minimum=0))]
Days = Annotated[int, BeforeValidator(partial(whole, minimum=0, maximum=DAYS_MAX))]
Hours = Annotated[int, BeforeValidator(partial(whole, minimum=0, maximum=HOURS_MAX))]
Minutes = Annotated[int, BeforeValidator(partial(whole, minimum=0, maximum=MINUTES_MAX))]
Percent = Annotated[int, BeforeValidator(partial(whole, minimum=1, maximum=99))]
Timeout = Annotated[int, BeforeValidator(partial(whole, minimum=60, maximum=86_400))]
Milliseconds = Annotated[timedelta, BeforeValidator(grammar.milliseconds)]
CheckTimeout = Annotated[timedelta, BeforeValidator(partial(grammar.milliseconds, maximum=600_000))]
WaitInterval = Annotated[timedelta, BeforeValidator(partial(grammar.milliseconds, at_least=30_000))]
Bytes = Annotated[int, BeforeValidator(grammar.memory), Mark.SIZE]
Room = Annotated[int, BeforeValidator(partial(grammar.room, minimum=0)), Mark.SIZE]
BoxRoom = Annotated[int, BeforeValidator(partial(grammar.room, minimum=16 * grammar.MEBIBYTE)), Mark.SIZE]
Cpus = Annotated[float, BeforeValidator(grammar.cpus)]

Word = Annotated[str, BeforeValidator(grammar.word)]
WorkerName = Annotated[str, BeforeValidator(grammar.worker_name)]
Why = Annotated[str | None, BeforeValidator(grammar.sentence)]
Names = Annotated[tuple[str, ...], BeforeValidator(forwarded_names)]
Paths = Annotated[tuple[str, ...], BeforeValidator(grammar.path_list)]
Models = Annotated[tuple[str, ...], BeforeValidator(grammar.model_list)]
Tools = Annotated[tuple[str, ...], BeforeValidator(grammar.tool_list)]
Profiles = Annotated[tuple[str, ...], BeforeValidator(grammar.profile_list)]
OnUnlessZero = Annotated[bool, BeforeValidator(grammar.zero_turns_off)]
OnUnlessZeroOnly = Annotated[bool, BeforeValidator(grammar.only_zero_turns_off)]
OffUnlessOne = Annotated[bool, BeforeValidator(grammar.one_turns_on)]
Extensions = Annotated[bool, BeforeValidator(grammar.extensions_word)]

Directory = Annotated[Path, BeforeValidator(grammar.absolute_path)]
Listen = Annotated[TcpAddress | UnixAddress | None, BeforeValidator(grammar.listens_on)]
RunDirectory = Annotated[Path, BeforeValidator(grammar.run_directory)]
ExistingDirectory = Annotated[Path, BeforeValidator(grammar.existing_directory)]
# A mark inside a union is not seen on the field, so these hold their own None.
Dollars = Annotated[int | None, BeforeValidator(grammar.dollars), Mark.DOLLARS]
OptionalFile = Annotated[Path | None, BeforeValidator(grammar.optional_file), Mark.EMPTY_IS_SET]
# An empty address must not start the embedded server where the operator's own was meant.
DatabaseUrl = Annotated[SecretStr | None, BeforeValidator(urls.database_url), Mark.EMPTY_IS_SET, Mark.HIDDEN]
RedisUrl = Annotated[SecretStr | None, BeforeValidator(urls.redis_url), Mark.EMPTY_IS_SET, Mark.HIDDEN]
Password = Annotated[SecretStr | None, BeforeValidator(urls.valkey_password), Mark.SECRET]

BaseUrl = Annotated[str, BeforeValidator(urls.base_url)]
Api = Annotated[str, BeforeValidator(provider_api)]


class AtSigterm(StrEnum):
    """What a worker does with this host's runs when it is asked to end."""

    LEAVE_RUNS = "leave-runs"
    DRAIN = "drain"
    STOP_RUNS = "stop-runs"


def _at_sigterm(text: str) -> AtSigterm:
    try:
        return AtSigterm(text)
    except ValueError:
        raise grammar.Unwanted(" or ".join(AtSigterm)) from None


Departure = Annotated[AtSigterm, BeforeValidator(_at_sigterm)]
