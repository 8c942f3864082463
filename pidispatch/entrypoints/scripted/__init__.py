"""A model provider that follows a script: every wire API, no model, exact usage; for the demo and for tests."""

from pidispatch.entrypoints.scripted.scenarios import SCENARIOS, ScriptedUsage, usage_of
from pidispatch.entrypoints.scripted.server import ScriptedProvider, ScriptedRequest

__all__ = ["SCENARIOS", "ScriptedProvider", "ScriptedRequest", "ScriptedUsage", "usage_of"]
