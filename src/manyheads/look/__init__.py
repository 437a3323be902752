"""Looking inside: arrays and tokens in, pictures out."""
