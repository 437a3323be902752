"""Pictures of coloured shapes, what is true of them, and questions about them: the same seed gives the same bytes."""
