"""Upkeep: the threads of a worker process that compare rows with what is there."""
