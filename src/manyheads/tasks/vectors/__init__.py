"""Word vectors: a text in, numbers for each of its words out, and what is near to what."""
