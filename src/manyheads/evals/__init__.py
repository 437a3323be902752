"""Other people's harnesses over the objects that a user calls."""
