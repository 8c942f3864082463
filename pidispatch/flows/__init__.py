"""The flows of a run: its way in, the gate, its box, the way out."""
