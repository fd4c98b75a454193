"""The box commands run in: what it shows, what it lets them write, and what it keeps from them."""
