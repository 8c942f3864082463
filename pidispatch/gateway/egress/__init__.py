"""The way to other hosts: what a run may reach, and what it tried."""
