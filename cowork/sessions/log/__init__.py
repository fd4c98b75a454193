"""The log of a session: writing, reading, locking, forking and diagnosing it."""
