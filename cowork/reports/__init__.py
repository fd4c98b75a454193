"""Pictures of what agents did: pages of one session or of many, a live page, and trajectories for other programs."""
