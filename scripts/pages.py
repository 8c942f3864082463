"""Write what is made of the code under docs/: `.venv/bin/python -m scripts.pages`, or `make docs`."""

from collections.abc import Mapping
from pathlib import Path

from scripts import cli_page, schema_page, words_page

DOCS = Path(__file__).parent.parent / "docs"


def pages() -> Mapping[str, str]:
    """The text of each page, by its name under docs/."""
    return {"cli.md": cli_page.page(), "schema.md": schema_page.page(), "words.md": words_page.page()}


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
