"""Decoding: ids in, logits out, and nothing known of the model between them."""
