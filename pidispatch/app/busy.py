"""Ask this host's gateway which providers it holds calls back from."""

import os
from collections.abc import Mapping
from datetime import datetime

from pidispatch.config import Settings
from pidispatch.errors import GatewayUnavailable
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.control import NAME as CONTROL


def busy_providers(settings: Settings, *, seconds: float) -> Mapping[str, datetime]:
    """By name, until when. Empty where nobody answers, which health tells, or where this user may not ask."""
    control = settings.run_dir / CONTROL
    if not os.access(control, os.W_OK):
        return {}
    try:
        return ControlDoors(control).busy_providers(seconds=seconds)
    except GatewayUnavailable:
        return {}
