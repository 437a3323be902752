"""The command line: parse, call one task, print. Commands import what they need as they run: help is quick."""
