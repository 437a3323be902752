"""Classification: a text, or two, in, a label or a number out."""
