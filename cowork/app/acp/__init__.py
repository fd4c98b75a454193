"""Editors, through the Agent Client Protocol."""
