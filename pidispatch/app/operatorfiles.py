"""Check the operator's files, and change one key of the settings overlay."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain.files.checking import Checked, FileKind, beside_each_other, check
from pidispatch.domain.limits.settings import Effective, merge, parse_overlay
from pidispatch.domain.limits.settingsedit import value_of, with_key
from pidispatch.domain.limits.settingskeys import KEYS, SettingKind
from pidispatch.domain.money import dollars
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import FileChanged, replace
from pidispatch.files.reading import read

TRIES = 20  # a change of one key can be made again on top of another's


@dataclass(frozen=True, slots=True)
class Change:
    """One key before and after, as texts; None is not set, and then `beneath` holds, if anything does."""

    file: Path
    key: str
    before: str | None
    after: str | None
    beneath: str | None


def check_files(paths: Sequence[Path], kind: FileKind | None = None) -> tuple[Checked, ...]:
    """Judge each file, and those that speak of each other together."""
    return beside_each_other([_check(path, kind) for path in paths])


def _check(path: Path, kind: FileKind | None) -> Checked:
    try:
        content = read(path).data
    except ConfigurationRefused as error:
        return Checked(str(path), kind, error.problems)
    if content is None:
        return Checked(str(path), kind, (f"{path}: does not exist",))
    return check(str(path), content, kind)


def overlay_file(settings: Settings) -> Path:
    """Where the settings overlay is: PI_SETTINGS_FILE, else in the home."""
    return settings.settings_file or settings.home / "settings.json"


def base_of(settings: Settings) -> Effective:
    """What holds where the overlay says nothing."""
    known = {each.name for each in fields(Effective)} & set(Settings.model_fields)
    return Effective(**{name: getattr(settings, name) for name in known})


def change_setting(settings: Settings, key: str, value: str | None) -> Change:
    """Set `key` to a text, or unset it for None. Raises ConfigurationRefused, or FileChanged when others never rest."""
    path, base = overlay_file(settings), base_of(settings)
    for last in range(TRIES - 1, -1, -1):
        old = read(path).data
        new = with_key(old, key, value, str(path))
        merged = merge(parse_overlay(new, str(path)), base)
        if not isinstance(merged, Effective):
            raise ConfigurationRefused([f"{path}: {problem}" for problem in merged])
        if old is None and value is None:
            break  # nothing to take away, so no file to make
        try:
            replace(path, old, new)
            break
        except FileChanged:
            if last == 0:
                raise
    return Change(
        path, key, value_of(old, key, str(path)), value_of(new, key, str(path)), _beneath(key, base)
    )


def _beneath(key: str, base: Effective) -> str | None:
    known = KEYS.get(key)
    value = getattr(base, known.attribute) if known is not None else None
    if known is not None and known.kind is SettingKind.AMOUNT and isinstance(value, int):
        return dollars(value)
    return str(value) if isinstance(value, str | int) else None
