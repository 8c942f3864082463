"""Admit: which of the waiting runs may start, and under which bounds."""
