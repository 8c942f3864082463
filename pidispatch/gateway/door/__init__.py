"""One run's door: its socket, what it asks there, and when it must stop."""
