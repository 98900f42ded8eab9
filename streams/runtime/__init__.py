"""The worker process: Faust, fetching, changelog, checkpoints, health and lag."""
