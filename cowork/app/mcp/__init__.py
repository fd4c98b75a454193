"""Joins MCP servers to a run: where they are configured, how they are started, what the model gets of them."""
