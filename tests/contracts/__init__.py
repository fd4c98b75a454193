"""What five source designs asked of delegation, row by row; `python -m tests.contracts` prints how each stands."""
