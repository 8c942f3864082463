"""Count the tokens of a request as some provider might: the text it reads, cut up by some tokenizer."""

import random
from typing import Any

from pidispatch.domain.providers.wireapis import RESPONSES


def request_of(api: str, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    name = "input" if api == RESPONSES else "messages"
    return {"model": "m", name: messages, **more}


def counted(api: str, request: dict[str, Any], seed: int) -> int:
    """A token is one byte of UTF-8 at least, up to `seed` bytes; a few go around each message."""
    width = 1 + seed % 4
    messages = request["input" if api == RESPONSES else "messages"]
    texts = [str(message["content"]) for message in messages]
    tools = [str(tool.get("name", "")) for tool in request.get("tools", [])]
    chosen = tools if request.get("tool_choice") != "none" else []
    around = 3 + random.Random(seed).randint(0, 3)
    return sum(-(-len(text.encode("utf-8", "surrogatepass")) // width) + around for text in [*texts, *chosen])
