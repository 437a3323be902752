"""Readers of other people's files: sentence pairs, text, labelled examples, tagged words, questions."""
