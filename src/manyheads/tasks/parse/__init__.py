"""Parsing: a sentence in, its tree of constituents out."""
