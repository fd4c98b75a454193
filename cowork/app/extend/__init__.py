"""Joins extensions to a run: where they are looked for, skills and commands at work, the programs they name."""
