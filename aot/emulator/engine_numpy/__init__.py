"""The slow engine: each instruction evaluated from the table, by numpy."""
