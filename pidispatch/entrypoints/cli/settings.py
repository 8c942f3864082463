"""`set`, `unset`: change the settings that are read at each start of a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import out, plain, print_json

if TYPE_CHECKING:
    from pidispatch.app.operatorfiles import Change

Key = Annotated[str, typer.Argument(metavar="KEY", help="A key of settings.json, such as dailyCap.")]


def set_key(
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="Its value; of secretProfiles name:/path,name:/path.")
    ],
    as_json: AsJson = False,
) -> None:
    _change(key, value, as_json=as_json)


def unset_key(key: Key, as_json: AsJson = False) -> None:
    _change(key, None, as_json=as_json)


def _change(key: str, value: str | None, *, as_json: bool) -> None:
    from pidispatch.app.operatorfiles import change_setting
    from pidispatch.config.environment import read_settings

    change = change_setting(read_settings(), key, value)
    if as_json:
        document = {"key": change.key, "before": change.before, "after": change.after}
        print_json({**document, "beneath": change.beneath, "file": change.file})
        return
    before, after = _text(change.before, change), _text(change.after, change)
    out.print(plain(f"{change.key}: {before} → {after}  ({change.file})"))


def _text(value: str | None, change: "Change") -> str:
    if value is not None:
        return value
    return "unset" if change.beneath is None else f"unset ({change.beneath} holds)"
