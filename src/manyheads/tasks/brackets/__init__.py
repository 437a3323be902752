"""Parsing as translation: words in, the brackets of their tree out."""
