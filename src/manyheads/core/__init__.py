"""What every other package stands on: errors, configs, files, messages. No torch."""
