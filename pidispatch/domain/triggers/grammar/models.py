"""Read which model a run uses, and how much of it."""

import re

from pidispatch.domain.limits.settingskeys import COLUMN_MAX
from pidispatch.domain.money import WANTED, micros_of
from pidispatch.domain.names import MODEL, MODELS_MAX, PROVIDER, is_provider_and_model
from pidispatch.domain.text.jsonfile import Number
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.nearmiss import MODELS, sweep
from pidispatch.domain.triggers.grammar.part import Part


def read_models(draft: Draft) -> None:
    """These fields alone take null for absent, since schedules were once copied without a look."""
    sweep((draft.run, draft.on), MODELS)
    run, ask = draft.run, draft.ask
    ask["provider"] = _word(run, "provider", PROVIDER, "letters, digits, dot, dash and underscore")
    ask["model"] = _word(run, "model", MODEL, "letters, digits and . _ - : / @")
    ask["max_turns"] = run.whole("maxTurns", maximum=COLUMN_MAX)
    ask["allowed_models"] = _list(run, ask["provider"], ask["model"])
    ask["cost_cap_micros"] = _amount(run)


def _word(run: Part, name: str, pattern: re.Pattern[str], wanted: str) -> str | None:
    node = run.node(name)
    if node is None:
        return None
    if not isinstance(node.value, str) or not pattern.fullmatch(node.value):
        run.refuse(name, f"must be 1 to 64 of {wanted}, beginning with a letter or digit")
    return node.value


def _list(run: Part, provider: str | None, model: str | None) -> tuple[str, ...] | None:
    node = run.node("models")
    if node is None:
        return None
    if not isinstance(node.value, list) or not 1 <= len(node.value) <= MODELS_MAX:
        run.refuse(
            "models", f"must be a list of 1 to {MODELS_MAX} of provider/model; leave it out to allow any"
        )
    names: list[str] = []
    for index, item in enumerate(node.value):
        name = item.value
        if not isinstance(name, str) or not is_provider_and_model(name):
            run.refuse(f"models[{index}]", "must be provider/model")
        if name.lower() in (each.lower() for each in names):
            run.refuse(f"models[{index}]", "is there twice (in any case)")
        names.append(name)
    if provider is not None and model is not None and f"{provider}/{model}" not in names:
        run.refuse(
            "models", "must hold this entry's own provider/model, spelled as in run, or no run could start"
        )
    return tuple(names)


def _amount(run: Part) -> int | None:
    node = run.node("maxCostUsd")
    if node is None:
        return None
    written = _plain(node.value) if isinstance(node.value, Number) else node.value
    amount = micros_of(written) if isinstance(written, str) else None
    if amount is None:
        run.refuse("maxCostUsd", f"must be {WANTED}")
    return amount


def _plain(number: Number) -> str:
    """A number without exponent and idle zeros: `1e1` and `2.50000000` are amounts where JSON comes from."""
    if micros_of(number.text) is not None:
        return number.text
    return f"{float(number.text):.12f}".rstrip("0").rstrip(".")
