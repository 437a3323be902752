"""Questions about images: an image and a question in, the answer out."""
