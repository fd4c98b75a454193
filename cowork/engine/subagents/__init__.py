"""Delegation: a checked order becomes a child, and the child's end becomes the record its parent receives."""
