"""A model provider that follows a script: every wire API, no model, exact usage; for the demo and for tests."""

from pidispatch.entrypoints.scripted.scenarios import SCENARIOS, Usage, usage_of
from pidispatch.entrypoints.scripted.server import Asked, ScriptedProvider

__all__ = ["SCENARIOS", "Asked", "ScriptedProvider", "Usage", "usage_of"]
