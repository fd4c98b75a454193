"""cowork: a terminal coding agent whose subagents you can see, price, trust and stop."""

__version__ = "0.1.0"
