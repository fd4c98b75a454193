"""Grep, Glob and LS, on ripgrep."""
