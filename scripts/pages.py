"""Write what is made of the code under docs/: `.venv/bin/python -m scripts.pages`, or `make docs`."""

from collections.abc import Mapping
from pathlib import Path

from scripts import benchmark_plots, cli_page, rooms_picture, schema_page, words_page

DOCS = Path(__file__).parent.parent / "docs"


def pages() -> Mapping[str, str]:
    """The text of each page and picture, by its name under docs/."""
    return {
        "cli.md": cli_page.page(),
        "rooms.svg": rooms_picture.picture(),
        "schema.md": schema_page.page(),
        "words.md": words_page.page(),
        **benchmark_plots.plots(),
    }


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text, encoding="utf-8")
