"""Text to ids and back. No torch."""
