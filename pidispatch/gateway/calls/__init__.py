"""Model calls: read, bounded, paid for, passed on and measured."""
