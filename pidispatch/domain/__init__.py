"""Decide: values and functions without I/O, without a clock; `now` is an argument."""
