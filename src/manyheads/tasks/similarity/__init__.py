"""Similarity: a text in, one vector out, near to those of texts that mean the same."""
