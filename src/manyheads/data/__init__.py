"""Data: files to examples, examples to token ids on disk, ids to batches; and a sample corpus."""
