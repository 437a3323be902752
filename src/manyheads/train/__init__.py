"""Training: one loop for every model; a task brings the data, the objective and the metric."""
