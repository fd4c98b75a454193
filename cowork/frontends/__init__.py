"""What people and programs see of a run. Each front end is a consumer of events."""
