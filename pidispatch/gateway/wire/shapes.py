"""List the shapes that each wire API's requests are made of, so that any other can be told from them.

A shape is the members that an object may have. One with a star may hold objects and lists and is looked into by
`weighing`, or is the agent's own JSON (a tool's arguments); every other holds a text, a number, true, false or null.
Listed is what pi sends, and what else is documented that keeps a request whole in its own bytes.
"""

from collections.abc import Mapping

Shape = Mapping[str, bool]


def shape(words: str) -> Shape:
    return {word.removesuffix("*"): word.endswith("*") for word in words.split()}


def shapes(**kinds: str) -> Mapping[str, Shape]:
    return {kind: shape(words) for kind, words in kinds.items()}


CACHE_CONTROL = shape("type ttl")
TOOL = shape(
    "type name description parameters* input_schema* strict cache_control* function* custom* format* defer_loading"
    " eager_input_streaming input_examples*"
)
TOOL_INSIDE = shape("name description parameters* strict format*")

# The settings of a request that are objects: any other member with an object as its value is not known.
SETTINGS = shapes(
    thinking="type budget_tokens display block_binding* clear_thinking",
    reasoning="effort summary generate_summary max_tokens enabled exclude",
    output_config="effort format*",
    output_format="type name schema* strict description",
    response_format="type json_schema* schema* name strict",
    text="format* verbosity",
    tool_choice="type name function* custom* mode tools* allowed_tools* disable_parallel_tool_use",
    stream_options="include_usage include_obfuscation",
    prompt_cache_options="mode ttl",
    cache_control="type ttl",
    function_call="name",
    # Not `chat_template`, a program that the server runs: it writes any number of tokens.
    chat_template_kwargs="enable_thinking preserve_thinking clear_thinking thinking thinking_budget reasoning_effort",
    chat_template_args="enable_thinking preserve_thinking clear_thinking thinking thinking_budget reasoning_effort",
)
ANY_NAMES = frozenset({"metadata", "logit_bias"})
LISTS = frozenset({"stop", "stop_sequences", "modalities", "include", "betas"})
TOOL_CHOICES = frozenset(
    {None, "auto", "any", "none", "tool", "required", "function", "custom", "allowed_tools"}
)
