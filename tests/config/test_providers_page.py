"""The page on providers says what the table of providers says."""

import re
from pathlib import Path

from pidispatch.domain.providers.known import KNOWN
from pidispatch.domain.providers.providersfile import parse_providers

PAGE = (Path(__file__).parents[2] / "docs/providers.md").read_text()


def test_the_page_lists_every_provider_with_its_api_and_its_key():
    told = re.findall(r"^\| `([a-z-]+)` \| `([a-z-]+)` \| `([A-Z_]+)` \|$", PAGE, re.MULTILINE)

    assert told == [(name, known.api, known.key_names[0]) for name, known in KNOWN.items()]


def test_the_pages_example_is_a_file_that_is_taken():
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1]

    found = parse_providers(example.encode(), "providers.json").entries

    assert list(found) == ["vllm", "ollama", "groq"]
