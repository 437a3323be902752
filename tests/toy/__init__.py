"""A whole task: a line in, its reversed line out."""
