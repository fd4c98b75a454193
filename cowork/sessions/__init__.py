"""The durable side of a run: the event log, its index, and checkpoints of files."""
