"""Write docs/words.md from the table of words: `.venv/bin/python scripts/words_page.py`."""

from collections.abc import Iterator
from pathlib import Path

from pidispatch.domain.words import Use, Word, words_of

PAGE = Path(__file__).parent.parent / "docs/words.md"
HEAD = """# Words

Every reason and cause that records, refused calls and logs name. This page is made of `pidispatch/domain/words.py` by
`scripts/words_page.py`; a test compares them.

*Gate* is where admission stops such a run, as `explain` shows it. *Mend* is set where it does not heal by itself: an operator must
mend something before such a run can start, and refusals with it count for the trigger's [breaker](operations.md#a-trigger-that-fails-again-and-again).
"""
SECTIONS = {
    Use.END: ("Why a run ended", "`reason` of `runs`."),
    Use.WHY: ("The second word", "`why` of `runs`, of its attempts, and of refused requests."),
    Use.CAUSE: ("Why a run waits", "`cause` of `runs` in state `deferred` or `held`. Each heals by itself."),
    Use.HOLD: ("What holds a run back now", "What `explain` finds beside the cause, `waits_for`."),
    Use.CALL: ("Why a model call was refused", "The answer 402 to the box says: this run may not make this call, and then:"),
    Use.GO: ("Why a box got no go", "What the gateway answers it, and what its log says."),
    Use.REMARK: ("What a completed run is marked with", "`remarks` of `runs`."),
    Use.DELIVERY: ("Deliveries and instants", "`reason` of `deliveries` and of `schedule_slots`, beside the answer."),
    Use.EVENT: ("Why an event starts nothing", "What `triggers test` says, of the event or of one entry."),
    Use.REQUEST: ("Why a request became no run", "`refused` in what became of a run's requests for further runs."),
    Use.SESSION: ("Sessions", "`session_reason` of `runs`, and what a box says of its session."),
}  # fmt: skip


def page() -> str:
    return "\n".join([HEAD, *(line for use in SECTIONS for line in _section(use))])


def _section(use: Use) -> Iterator[str]:
    title, said = SECTIONS[use]
    found = list(words_of(use))
    gated = use in {Use.END, Use.CAUSE}
    yield f'<a id="{use}"></a>\n## {title}\n\n{said}\n'
    yield (
        "| Word | Gate | Mend | It means |\n|---|---|---|---|" if gated else "| Word | It means |\n|---|---|"
    )
    yield from (_row(word, use, gated=gated) for word in found)
    yield ""


def _row(word: Word, use: Use, *, gated: bool) -> str:
    said = word.meanings[use].replace("|", "\\|")
    if not gated:
        return f"| `{word}` | {said} |"
    return f"| `{word}` | {word.gate or ''} | {'' if word.heals else 'yes'} | {said} |"


if __name__ == "__main__":
    PAGE.write_text(page())
