"""Claims of the lectures, tried out: one file for each."""
