"""The children of a run: what is known of each, their rows and their panels."""
