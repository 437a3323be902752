"""Foreign checkpoints: one file per family, a table of names with its reverse; left-overs on either side are errors."""
