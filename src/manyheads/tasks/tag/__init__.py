"""Tagging: a sentence in, a label for each of its words out."""
