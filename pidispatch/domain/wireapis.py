"""Name the wire APIs that the gateway speaks, in pi's words."""

OPENAI = "openai-completions"
RESPONSES = "openai-responses"
ANTHROPIC = "anthropic-messages"
WIRE_APIS = (OPENAI, RESPONSES, ANTHROPIC)
