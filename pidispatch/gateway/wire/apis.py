"""List the wire APIs that the gateway speaks: a new one is its own module, its line here and its name in the domain."""

from pidispatch.gateway.wire.anthropic import ANTHROPIC
from pidispatch.gateway.wire.api import WireApi
from pidispatch.gateway.wire.completions import COMPLETIONS
from pidispatch.gateway.wire.responses import RESPONSES

BY_NAME: dict[str, WireApi] = {api.name: api for api in (ANTHROPIC, COMPLETIONS, RESPONSES)}
BY_PATH: dict[str, WireApi] = {api.path: api for api in BY_NAME.values()}
