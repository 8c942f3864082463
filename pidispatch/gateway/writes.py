"""Tell what a request may have the provider write to its cache."""

import re

from pidispatch.domain.rates import CacheWrites
from pidispatch.domain.wireapis import ANTHROPIC

_LONG = re.compile(rb'"ttl"\s*:\s*"1h"')
# A plain letter that is written as an escape hides the words looked for here; pi writes none.
_HIDDEN = re.compile(rb"\\u00[2-7]")


def cache_writes(api: str, body: bytes) -> CacheWrites:
    """At most: anything hidden counts as the dearest. Other APIs than Anthropic's may write without being asked."""
    if _LONG.search(body) or _HIDDEN.search(body):
        return CacheWrites.LONG
    if api != ANTHROPIC or b'"cache_control"' in body:
        return CacheWrites.SHORT
    return CacheWrites.NONE
