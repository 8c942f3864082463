"""Configuration: every name an operator may set, read once, checked whole, and never printed with a secret.

`load` merges `.env` with the environment (which wins) and returns frozen `Settings`, or refuses with all
problems at once. `describe` says what each name is and where it came from. Provider keys are no part of it: the
gateway alone asks for them with `provider_keys`.
"""

from pidispatch.config.forwarding import forwarded_values
from pidispatch.config.kinds import AtSigterm
from pidispatch.config.loading import load
from pidispatch.config.notyet import NO_EFFECT_YET, NOT_ENFORCED_YET, without_effect
from pidispatch.config.place import Place
from pidispatch.config.providers import provider_keys
from pidispatch.config.rows import ConfigRow, describe
from pidispatch.config.settings import AT_SIGTERM, Settings
from pidispatch.config.sources import Source, effective_environment

__all__ = [
    "AT_SIGTERM",
    "NOT_ENFORCED_YET",
    "NO_EFFECT_YET",
    "AtSigterm",
    "ConfigRow",
    "Place",
    "Settings",
    "Source",
    "describe",
    "effective_environment",
    "forwarded_values",
    "load",
    "provider_keys",
    "without_effect",
]
