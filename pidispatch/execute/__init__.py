"""Execute: from an admitted run to its box, and from its box to the record."""
