"""What a person can ask of an installation: each function takes an `Installation`, and what was asked."""
