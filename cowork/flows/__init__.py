"""Many agents in plain Python: flows whose journal saves them from paying twice, batches, and where tasks run."""
