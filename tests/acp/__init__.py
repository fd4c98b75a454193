"""Editors: the Agent Client Protocol."""
