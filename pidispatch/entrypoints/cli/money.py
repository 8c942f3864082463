"""`budget` and `prices`: what was spent, what may be, and what a model costs."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.domain.money import dollars
from pidispatch.entrypoints.cli.output import AsJson, out, plain, print_json, print_table
from pidispatch.entrypoints.cli.wording import amount, window_name

if TYPE_CHECKING:
    from pidispatch.app.prices import ModelPrice, TierRow
    from pidispatch.app.verbs.queue import BudgetWindow


HEADINGS = (
    "model", "price", "tokens in", "input", "output", "cache read", "cache write", "1 h", "request", "from",
)  # fmt: skip
ModelName = Annotated[
    str | None,
    typer.Argument(
        metavar="PROVIDER/MODEL",
        help="One model. Without it: the one that runs use, and all that the prices file names.",
    ),
]


def prices(model: ModelName = None, as_json: AsJson = False) -> None:
    from pidispatch.app import prices as book
    from pidispatch.config.environment import read_settings

    provider, _, name = (model or "").partition("/")
    if model is not None and not (provider and name):
        raise typer.BadParameter("want a provider and a model, such as anthropic/claude-sonnet-4-5")
    settings = read_settings()
    found = book.every_price(settings) if model is None else (book.price_of(settings, provider, name),)
    if as_json:
        print_json(found)
    else:
        _print(found)
    raise typer.Exit(1 if any(each.way_out for each in found) else 0)


def _print(found: "tuple[ModelPrice, ...]") -> None:
    print_table(HEADINGS, [row for each in found for row in _rows(each)])
    for each in found:
        if each.way_out:
            out.print(plain(f"{each.model}: {each.way_out}"))


def _rows(price: "ModelPrice") -> list[tuple[object, ...]]:
    if not price.tiers:
        word = f"plan {price.plan}" if price.plan else str(price.rating)
        return [(price.model, word, *[None] * 7, price.version)]
    word = f"like {price.like}" if price.like else str(price.rating)
    ends = [tier.above for tier in price.tiers[1:]]
    reach = [f"to {ends[0]:,}" if ends else None, *(f"above {end:,}" for end in ends)]
    return [
        (price.model, word, tokens, *_figures(tier), price.version)
        for tokens, tier in zip(reach, price.tiers, strict=True)
    ]


def _figures(tier: "TierRow") -> tuple[str | None, ...]:
    kinds = (tier.input, tier.output, tier.cache_read, tier.cache_write, tier.cache_write_1h)
    return (*(dollars(kind) for kind in kinds), dollars(tier.request) if tier.request else None)


def budget(as_json: AsJson = False) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import queue

    with Installation.here() as here:
        found = queue.budget(here)
    if as_json:
        print_json(found)
        return
    print_table(
        ("window", "used", "cap", "of it held", "state", "resets at", "held by"),
        [
            (
                window_name(window.name, window.unit, window.period),
                _used(window),
                amount(window.unit, window.cap),
                amount(window.unit, window.held),
                window.state,
                window.resets_at,
                _holders(window),
            )
            for window in found.windows
        ],
    )


def _used(window: "BudgetWindow") -> str:
    used = amount(window.unit, window.used)
    return f"at most {used}" if window.assumed else used


def _holders(window: "BudgetWindow") -> str:
    more = window.holders - len(window.held_by)
    return ", ".join(window.held_by) + (f" and {more:,} more" if more else "")
