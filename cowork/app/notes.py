"""What a person should know before the first prompt."""

from __future__ import annotations

from cowork.config.load import Config

NO_KEY = "no key was found"  # how the configuration explains that it chose the offline model


def notes(config: Config) -> tuple[str, ...]:
    """What a person should know about the model at the start: that there is none, and what to do."""
    if config.models.main.provider != "offline" or config.origin("models.main.provider") != NO_KEY:
        return ()
    return (
        "no model key found: running on the built-in offline model (search only). "
        "/model or `cowork config init` sets one up",
    )
