"""Masked language modelling: a text with hidden words in, the words out."""
