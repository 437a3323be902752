"""What every other package stands on: errors, configs, files, seeds, messages. No torch."""
