"""Bash and its background commands."""
