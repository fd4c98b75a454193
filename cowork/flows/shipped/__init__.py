"""Flows that cowork brings: `cowork flow run review|migrate|answer`."""
