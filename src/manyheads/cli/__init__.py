"""The command line: parse, call one task, print. Commands import what they need when they run, so that help is quick."""
