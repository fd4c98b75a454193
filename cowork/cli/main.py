"""The command line."""


def run() -> None:
    """Parse and go."""
