"""A model provider with one script, in both wire APIs: write a file with pi's tool, then say that it is done."""

import json

TOOL = ("write", {"path": "made.txt", "content": "made in the box\n"})
USAGE = (100, 20)


def answer(path, body):
    """The bytes of a streamed answer; the step is the number of assistant messages so far."""
    asked = json.loads(body)
    step = sum(message["role"] == "assistant" for message in asked["messages"])
    events = anthropic(step) if path.startswith("/v1/messages") else openai(step)
    return b"".join(events)


def openai(step):
    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}

    if step == 0:
        function = {"name": TOOL[0], "arguments": json.dumps(TOOL[1])}
        yield data(
            chunk({"role": "assistant", "tool_calls": [{"index": 0, "id": "t", "function": function}]})
        )
        yield data(chunk({}, "tool_calls"))
    else:
        yield data(chunk({"role": "assistant", "content": "done"}))
        yield data(chunk({}, "stop"))
    usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
    yield data({**chunk({}), "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def anthropic(step):
    usage = {"input_tokens": USAGE[0], "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    yield data({"type": "message_start", "message": message})
    if step == 0:
        block = {"type": "tool_use", "id": "t", "name": TOOL[0], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(TOOL[1])}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
    yield data({"type": "content_block_start", "index": 0, "content_block": block})
    yield data({"type": "content_block_delta", "index": 0, "delta": delta})
    yield data({"type": "content_block_stop", "index": 0})
    stop = {"stop_reason": "end_turn" if step else "tool_use", "stop_sequence": None}
    yield data({"type": "message_delta", "delta": stop, "usage": {"output_tokens": USAGE[1]}})
    yield data({"type": "message_stop"})


def data(value):
    kind = f"event: {value['type']}\n" if "type" in value else ""
    return f"{kind}data: {json.dumps(value)}\n\n".encode()
