"""The built-in offline model: a rule-based planner behind the provider seam. No network, no files, no cost."""
