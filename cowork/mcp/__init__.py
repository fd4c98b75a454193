"""The Model Context Protocol: a client of both eras, and cowork as a server."""
