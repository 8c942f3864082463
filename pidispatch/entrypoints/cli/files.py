"""`check`, `set` and `unset`: the operator's files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.domain.files.checking import FileKind
from pidispatch.entrypoints.cli.output import AsJson, err, out, plain, print_json

if TYPE_CHECKING:
    from pidispatch.app.operatorfiles import Change
    from pidispatch.domain.files.checking import Checked


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


def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files to judge, together.")],
    kind: Annotated[
        FileKind | None,
        typer.Option("--as", help="What kind of file they are, where name and content do not show it."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    from pidispatch.app.keeping import in_place_of
    from pidispatch.app.operatorfiles import check_files

    checked = check_files(files, kind)
    refused = [Path(each.file) for each in checked if each.problems]
    holds = in_place_of(refused) if refused else {}
    if as_json:
        print_json([_document(each, holds.get(Path(each.file), ())) for each in checked])
    else:
        for each in checked:
            _print(each, holds.get(Path(each.file), ()))
    raise typer.Exit(2 if any(each.problems for each in checked) else 0)


def _document(checked: "Checked", holds: Sequence[str]) -> dict[str, object]:
    return {
        "file": checked.file,
        "kind": checked.kind,
        "ok": not checked.problems,
        "summary": checked.summary,
        "problems": checked.problems,
        "notes": checked.notes,
        "not_in_force": list(holds),
    }


def _print(checked: "Checked", holds: Sequence[str]) -> None:
    for problem in checked.problems:
        err.print(f"pidispatch: {plain(problem)}")
    for sentence in holds:
        err.print(f"pidispatch: {plain(sentence)}")
    if not checked.problems:
        out.print(plain(f"ok: {checked.file}: {checked.kind}, {checked.summary}"))
    for note in checked.notes:
        out.print(plain(f"note: {note}"))
