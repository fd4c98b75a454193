"""The agent: the loop, one call at a time, children, budgets and compaction."""
