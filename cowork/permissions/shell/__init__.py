"""Reads shell commands: their words, what they run on behalf of others, and whether they only read."""
