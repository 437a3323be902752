"""Data: files to pairs, pairs to token ids on disk, ids to batches; and a sample corpus."""
