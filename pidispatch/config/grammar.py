"""Parse the text of one variable into its value, or say what is wanted instead."""

import os
import re
from datetime import timedelta
from pathlib import Path

from pidispatch.domain.money import WANTED as AMOUNT_WANTED
from pidispatch.domain.money import micros_of
from pidispatch.domain.names import MODELS_MAX, NAME_WANTED, is_name, is_provider_and_model
from pidispatch.domain.text.address import WANTED as ADDRESS_WANTED
from pidispatch.domain.text.address import ListenAddress, listen_address

WHOLE_MAX = 2**53 - 1  # the largest integer that every JSON reader keeps
COUNT_MAX = 2**31 - 1  # what an integer column holds
DAYS_MAX = 36_500
HOURS_MAX = 24 * DAYS_MAX
MINUTES_MAX = 60 * HOURS_MAX
MILLISECONDS_MAX = 60_000 * MINUTES_MAX

SENTENCE_MAX = 500
MEBIBYTE = 1024 * 1024
GIBIBYTE = 1024 * MEBIBYTE
SOCKET_PATH_MAX = 107
GATE_SOCKET_TAIL = f"/g/{'9' * 19}/s"


class Unwanted(ValueError):
    """The text does not follow its grammar; `want` says what would, for the end of a sentence.

    `hide` when the text may hold a secret that was never meant to be there.
    """

    def __init__(self, want: str, *, hide: bool = False) -> None:
        self.want, self.hide = want, hide
        super().__init__(want)


def whole(text: str, *, minimum: int, maximum: int = WHOLE_MAX) -> int:
    """An integer in plain digits: what it prints as must be the text again, so `05`, `+7` and `1e3` are refused."""
    if re.fullmatch(r"0|[1-9][0-9]{0,15}", text) and minimum <= int(text) <= maximum:
        return int(text)
    raise Unwanted(f"an integer from {minimum} to {maximum} in plain digits")


def memory(text: str) -> int:
    """Bytes of a size such as `512m` or `4g`."""
    want = "a size from 512m to 1024g, such as 768m or 4g"
    if not re.fullmatch(r"[1-9][0-9]{0,8}[mg]", text):
        raise Unwanted(want)
    size = int(text[:-1]) * (GIBIBYTE if text.endswith("g") else MEBIBYTE)
    if not 512 * MEBIBYTE <= size <= 1024 * GIBIBYTE:
        raise Unwanted(want)
    return size


def room(text: str, *, minimum: int) -> int:
    """Bytes of a size such as `256m` or `2g`; `minimum` is bytes. With a minimum of 0, `0` is one too."""
    smallest = "0, or a size" if minimum == 0 else f"a size from {minimum // MEBIBYTE}m"
    if minimum == 0 and text == "0":
        return 0
    if re.fullmatch(r"[1-9][0-9]{0,8}[mg]", text):
        size = int(text[:-1]) * (GIBIBYTE if text.endswith("g") else MEBIBYTE)
        if minimum <= size <= 1024 * GIBIBYTE:
            return size
    raise Unwanted(f"{smallest} up to 1024g, such as 256m or 2g")


def dollars(text: str) -> int:
    """An amount of US dollars as micro-dollars."""
    micros = micros_of(text)
    if micros is None:
        raise Unwanted(AMOUNT_WANTED)
    return micros


def cpus(text: str) -> float:
    if re.fullmatch(r"(0|[1-9][0-9]{0,2})(\.[0-9]{1,2})?", text) and 0.25 <= float(text) <= 256:
        return float(text)
    raise Unwanted("a number from 0.25 to 256 with at most two decimals")


def word(text: str) -> str:
    """A name handed to other programs: not empty, no space in it, and no leading dash, which would be an option."""
    if text.isprintable() and text and " " not in text and not text.startswith("-"):
        return text
    raise Unwanted("a name without spaces that does not begin with a dash")


def worker_name(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text) and not text.endswith((".json", ".log")):
        return text
    raise Unwanted(
        "1 to 64 letters, digits, dots, underscores or dashes, the first a letter or digit, not ending in .json or .log"
    )


def is_absolute(text: str) -> bool:
    return text.startswith("/") and not re.search(r"[\x00-\x1f\x7f]", text)


def absolute_path(text: str) -> Path:
    if is_absolute(text):
        return Path(text)
    raise Unwanted("an absolute path (~ and variables are not expanded)")


def optional_file(text: str) -> Path:
    """A file's path. An empty one is refused: it looks set, and would leave out every rule in the file."""
    if text == "":
        raise Unwanted("the absolute path of a file, or no such variable")
    return absolute_path(text)


def existing_directory(text: str) -> Path:
    """A directory that is there: a path to nothing would drop the operator's set-up from every job unseen."""
    if is_absolute(text) and Path(text).is_dir():
        return Path(text)
    raise Unwanted("the absolute path of a directory that exists")


def run_directory(text: str) -> Path:
    """A directory whose sockets' paths the kernel takes: it refuses any longer than 107 bytes."""
    path = absolute_path(text)
    longest = SOCKET_PATH_MAX - len(GATE_SOCKET_TAIL)
    if len(os.fsencode(path)) <= longest:
        return path
    raise Unwanted(f"an absolute path of at most {longest} bytes, since sockets lie beneath it")


def listens_on(text: str) -> ListenAddress:
    address = listen_address(text)
    if address is None:
        raise Unwanted(ADDRESS_WANTED)
    return address


def zero_turns_off(text: str) -> bool:
    return text != "0"


def only_zero_turns_off(text: str) -> bool:
    """A third word is refused: who writes `true` or `off` of a wall must not have to guess what it did."""
    if text in {"0", "1"}:
        return text == "1"
    raise Unwanted('"0" to turn it off, or nothing to leave it on')


def sentence(text: str) -> str:
    """Words for people, on one line."""
    if text.strip() and text.isprintable() and len(text) <= SENTENCE_MAX:
        return text.strip()
    raise Unwanted(f"a sentence of at most {SENTENCE_MAX} characters on one line")


def one_turns_on(text: str) -> bool:
    return text == "1"


def extensions_word(text: str) -> bool:
    """A third word is refused: who writes `false` believes that extensions are off."""
    if text in {"", "1"}:
        return True
    if text == "0":
        return False
    raise Unwanted('"0" to leave the extensions out, or nothing to load them')


def milliseconds(text: str, *, at_least: int = 1, maximum: int = MILLISECONDS_MAX) -> timedelta:
    """A time of at least one millisecond; what is less than `at_least` is raised to it."""
    return timedelta(milliseconds=max(at_least, whole(text, minimum=1, maximum=maximum)))


def profile_list(text: str) -> tuple[str, ...]:
    """`name:/program` between commas: nothing is left out quietly, since a run that names it would be refused."""
    entries = [entry.strip() for entry in text.split(",")]
    names = [entry.partition(":")[0] for entry in entries]
    wanted = f"name:/absolute/path between commas, each name once, of {NAME_WANTED}"
    if len(set(names)) < len(names) or not all(map(_is_profile, entries)):
        raise Unwanted(wanted)
    return tuple(entries)


def _is_profile(entry: str) -> bool:
    name, _, program = entry.partition(":")
    return is_name(name) and is_absolute(program)


def model_list(text: str) -> tuple[str, ...]:
    """`provider/model` between commas, without spaces: a name that is spelled wrong must not shut out what was meant."""
    models = text.split(",")
    twice = len({model.lower() for model in models}) < len(models)
    if len(models) > MODELS_MAX or twice or not all(map(is_provider_and_model, models)):
        raise Unwanted(f"1 to {MODELS_MAX} of provider/model between commas, each once, without spaces")
    return tuple(models)


def tool_list(text: str) -> tuple[str, ...]:
    """Words between commas, as the gateway's refusals say them."""
    words = comma_list(text)
    if len(words) > MODELS_MAX or not all(re.fullmatch(r"[$A-Za-z0-9_.:-]{1,64}", word) for word in words):
        raise Unwanted(
            f"up to {MODELS_MAX} words between commas, each of at most 64 letters, digits or $ _ . : -"
        )
    return words


def path_list(text: str) -> tuple[str, ...]:
    """Entries as they were written, less the space around them; downstream resolves links."""
    return _entries(text, os.pathsep)


def comma_list(text: str) -> tuple[str, ...]:
    return _entries(text, ",")


def _entries(text: str, separator: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split(separator) if entry.strip())
