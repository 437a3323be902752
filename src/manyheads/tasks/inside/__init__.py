"""Looking inside the model of any task, through what its predictor says of it."""
