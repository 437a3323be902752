"""Answering: a question and a text in, the stretch of the text that answers it out."""
