"""Each model in one file, read top to bottom; siblings do not import each other."""
