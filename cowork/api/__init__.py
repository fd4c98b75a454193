"""What programs use: sessions, one-shot runs, tools of their own and typed results, on the builder of the command."""
