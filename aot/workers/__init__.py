"""Processes below a command: warm workers, tools that are run once, and how all of them end with the command."""
