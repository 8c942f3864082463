"""The flows' site: a real Postgres, with boxes, doors and files that a test commands."""

from tests.flows.conftest import site

__all__ = ["site"]
