"""Images: a picture in, its label out."""
