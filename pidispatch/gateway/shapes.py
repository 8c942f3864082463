"""List the shapes that each wire API's requests are made of, so that any other can be told from them.

A shape is the members that an object may have. One with a star may hold objects and lists and is looked into by
`weighing`, or is the agent's own JSON (a tool's arguments); every other holds a text, a number, true, false or null.
Listed is what pi sends, and what else is documented that keeps a request whole in its own bytes.
"""

from collections.abc import Mapping

Shape = Mapping[str, bool]


def _shape(words: str) -> Shape:
    return {word.removesuffix("*"): word.endswith("*") for word in words.split()}


def _shapes(**kinds: str) -> Mapping[str, Shape]:
    return {kind: _shape(words) for kind, words in kinds.items()}


CACHE_CONTROL = _shape("type ttl")
TOOL = _shape(
    "type name description parameters* input_schema* strict cache_control* function* custom* format* defer_loading"
    " eager_input_streaming input_examples*"
)
TOOL_INSIDE = _shape("name description parameters* strict format*")

# https://docs.anthropic.com/en/api/messages
MESSAGE = _shape("role content* output_config*")
BLOCKS = _shapes(
    text="type text citations* cache_control*",
    thinking="type thinking signature",
    redacted_thinking="type data",
    tool_use="type id name input* cache_control*",
    tool_result="type tool_use_id content* is_error cache_control*",
    image="type source* cache_control*",
    document="type source* title context citations* cache_control*",
    search_result="type source title content* citations* cache_control*",
    tool_addition="type tool* cache_control*",
    tool_removal="type tool* cache_control*",
)
SOURCES = _shapes(
    base64="type media_type data", text="type media_type data", url="type url", file="type file_id", content="type content*"
)  # fmt: skip
CHANGED_TOOL = _shape("type name definition*")

# https://platform.openai.com/docs/api-reference/chat, and what pi adds for other servers
CHAT_MESSAGE = _shape(
    "role content* name tool_calls* tool_call_id function_call* refusal reasoning_content reasoning reasoning_text"
    " reasoning_details* annotations* cache_control* tool_name prefix tools*"
)
CHAT_PARTS = _shapes(
    text="type text cache_control*",
    refusal="type refusal",
    thinking="type thinking*",
    image_url="type image_url* cache_control*",
    file="type file*",
    input_audio="type input_audio*",
)
IMAGE_URL = _shape("url detail")
FILE = _shape("file_id file_data filename")
AUDIO = _shape("data format")
TOOL_CALL = _shape("id type index function* custom* cache_control*")
CALLED = _shape("name arguments input")
REASONING_DETAIL = _shape("type id format index summary data text signature")

# https://platform.openai.com/docs/api-reference/responses
EASY_MESSAGE = _shape("role content* phase")
ITEMS = _shapes(
    message="type id role content* status phase",
    function_call="type id call_id name arguments status namespace",
    custom_tool_call="type id call_id name input status namespace",
    function_call_output="type id call_id output* status",
    custom_tool_call_output="type id call_id output* status",
    reasoning="type id summary* content* encrypted_content status",
    additional_tools="type id role tools*",
    configuration_update="type id reasoning*",
    tool_search_call="type id call_id execution status arguments*",
    tool_search_output="type id call_id execution status tools*",
)
ITEM_PARTS = _shapes(
    input_text="type text cache_control*",
    output_text="type text annotations* logprobs*",
    text="type text",
    refusal="type refusal",
    summary_text="type text",
    reasoning_text="type text",
    input_image="type image_url file_id detail",
    input_file="type file_id file_url file_data filename",
)

# The settings of a request that are objects: any other member with an object as its value is not known.
SETTINGS = _shapes(
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
INCLUDED = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})
TOOL_CHOICES = frozenset(
    {None, "auto", "any", "none", "tool", "required", "function", "custom", "allowed_tools"}
)
