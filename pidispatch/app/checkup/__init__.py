"""Check a whole installation: its environment, its rows, and that both agree."""
