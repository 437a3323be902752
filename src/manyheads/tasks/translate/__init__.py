"""Translation: sentences in one language in, the same in another out."""
