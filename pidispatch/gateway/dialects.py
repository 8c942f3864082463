"""Tell which members of a request each wire API has, and which of them leave its cost bounded.

Under a cap only what stands here may be asked for: a member that nobody here knows may cost anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES

_TIERS = (None, "auto", "default", "standard", "standard_only", "flex", "on_demand")
_NOTHING: tuple[Any, ...] = (None, [], {})
_ANY_API = "model stream temperature top_p metadata tools tool_choice service_tier"
_OPENAI = (
    "store user safety_identifier prompt_cache_key prompt_cache_retention parallel_tool_calls top_logprobs"
)

# These take max_completion_tokens (pi's table says which); elsewhere it may be ignored, and only max_tokens counts.
_TAKES_COMPLETION_LIMIT = frozenset(
    {"cerebras", "groq", "huggingface", "kimi-coding", "openai", "openrouter", "xai", "xiaomi"}
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire API. `members` are those whose bytes bound what they cost; `only` are bounded with these values alone.

    `limits`: the members that bound the output. `conversation`: the list that grows from call to call. `schemas`: what
    the provider writes out anew in more words. `tools`: types of tools that the asker runs. `image`: tokens of an
    image at most.
    """

    conversation: str
    limits: tuple[str, ...]
    members: frozenset[str]
    only: Mapping[str, tuple[Any, ...]]
    schemas: tuple[str, ...]
    tools: frozenset[str | None]
    image: int

    @property
    def known(self) -> frozenset[str]:
        return self.members | frozenset(self.only)

    def limit_names(self, provider: str) -> tuple[str, ...]:
        """The members by which this provider surely bounds its output, the usual one first."""
        if len(self.limits) == 1 or provider in _TAKES_COMPLETION_LIMIT:
            return self.limits
        return self.limits[1:]


def _names(*words: str) -> frozenset[str]:
    return frozenset(name for word in words for name in word.split())


DIALECTS: Mapping[str, Dialect] = {
    # https://docs.anthropic.com/en/api/messages; images: "Vision", 4,784 tokens for models that see 2,576 pixels
    ANTHROPIC: Dialect(
        conversation="messages",
        limits=("max_tokens",),
        members=_names(
            _ANY_API,
            "messages max_tokens system top_k stop_sequences thinking output_config output_format betas cache_control",
            "fallbacks",
        ),
        only={
            "service_tier": _TIERS,
            "speed": (None, "standard"),
            "inference_geo": (None, "global"),
            "container": _NOTHING,
            "mcp_servers": _NOTHING,
            "context_management": _NOTHING,
        },
        schemas=("tools", "output_config", "output_format"),
        tools=frozenset({None, "custom"}),
        image=5_000,
    ),
    # https://platform.openai.com/docs/api-reference/chat, and what pi adds for other servers. Images: the dearest is
    # gpt-4o-mini's, 2,833 tokens and 5,667 for each of at most eight tiles ("Images and vision").
    OPENAI: Dialect(
        conversation="messages",
        limits=("max_completion_tokens", "max_tokens"),
        members=_names(
            _ANY_API,
            _OPENAI,
            "messages max_tokens max_completion_tokens n best_of stream_options stop seed logit_bias logprobs",
            "presence_penalty frequency_penalty response_format functions function_call reasoning_effort verbosity",
            "reasoning include_reasoning reasoning_format thinking enable_thinking thinking_budget top_k min_p",
            "thinking_token_budget repetition_penalty chat_template_kwargs chat_template_args tool_stream priority",
        ),
        only={
            "service_tier": _TIERS,
            "modalities": (None, ["text"]),
            "audio": _NOTHING,
            "prediction": _NOTHING,
            "web_search_options": (None,),
            "provider": _NOTHING,
        },
        schemas=("tools", "functions", "response_format", "chat_template_kwargs", "chat_template_args"),
        tools=frozenset({None, "function", "custom"}),
        image=49_152,
    ),
    # https://platform.openai.com/docs/api-reference/responses
    RESPONSES: Dialect(
        conversation="input",
        limits=("max_output_tokens",),
        members=_names(
            _ANY_API,
            _OPENAI,
            "input instructions max_output_tokens stream_options reasoning text include truncation max_tool_calls",
            "prompt_cache_options",
        ),
        only={
            "service_tier": _TIERS,
            "context_management": _NOTHING,
            "modalities": (None, ["text"]),
        },
        schemas=("tools", "text"),
        tools=frozenset({"function", "custom"}),
        image=49_152,
    ),
}
