"""Tasks: the only place that knows both a model and data."""
