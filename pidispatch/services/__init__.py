"""Postgres and Valkey for a machine that has neither, run as children of one `pidispatch up`."""
