"""Say in one sentence what is wrong with one variable, without showing a secret."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from pidispatch.config.grammar import Unwanted
from pidispatch.config.kinds import Mark
from pidispatch.config.settings import is_marked

SHOWN_LENGTH = 200


def problems_of(
    error: ValidationError, values: Mapping[str, Any], variables: Mapping[tuple[str, str], str]
) -> Iterator[str]:
    """A sentence for each fault that pydantic found.

    `values` is what it was given, by setting; `variables` names the variable of a (setting, provider).
    """
    for detail in error.errors(include_url=False, include_input=False):
        setting = str(detail["loc"][0])
        cause = detail.get("ctx", {}).get("error")
        if setting not in values:
            yield f"{setting} is unset, and this user has no home directory to put it in; want an absolute path"
        elif isinstance(values[setting], Mapping):
            provider = str(detail["loc"][1])
            yield _sentence(variables[setting, provider], setting, values[setting][provider], cause)
        else:
            yield _sentence(setting, setting, values[setting], cause)


def _sentence(variable: str, setting: str, text: str, cause: object) -> str:
    want = cause.want if isinstance(cause, Unwanted) else "another value"
    hidden = is_marked(setting, Mark.HIDDEN) or is_marked(setting, Mark.SECRET)
    hidden = hidden or not isinstance(cause, Unwanted) or cause.hide
    if hidden and text:
        return f"{variable} is not accepted (its value is not shown); want {want}"
    return f"{variable} is {_shown(text)}; want {want}"


def _shown(text: str) -> str:
    if len(text) <= SHOWN_LENGTH:
        return repr(text)
    return f"{text[:SHOWN_LENGTH]!r}… ({len(text)} characters)"
