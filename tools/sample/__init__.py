"""A grammar of English and German that writes the sample corpus: the same seed gives the same bytes."""
