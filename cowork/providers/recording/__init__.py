"""Recordings of what models were asked and answered, and their replay."""
