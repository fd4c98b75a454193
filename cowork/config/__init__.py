"""TOML layers, environment and flags, made into one frozen Config that knows where each value came from."""

from cowork.config.load import Config, load

__all__ = ["Config", "load"]
