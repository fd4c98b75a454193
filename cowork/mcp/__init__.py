"""The Model Context Protocol: a client of both eras."""
