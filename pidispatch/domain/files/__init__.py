"""The operator's files, read from bytes: each parser returns a frozen value, or refuses with every problem at once.

A problem names file, line, entry and field, and never a value that may be a secret.
"""
