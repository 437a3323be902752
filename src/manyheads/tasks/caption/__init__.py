"""Captions: an image in, a sentence about it out."""
