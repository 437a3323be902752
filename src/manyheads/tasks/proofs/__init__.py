"""Claims that a command proves on the user's own model or recipe."""
