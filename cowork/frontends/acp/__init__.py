"""The Agent Client Protocol: what editors are told, and how they are asked."""
