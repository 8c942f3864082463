"""One process or one screen each; no decisions."""
