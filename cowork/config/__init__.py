"""TOML layers, environment and flags, made into one frozen Config that knows where each value came from."""
