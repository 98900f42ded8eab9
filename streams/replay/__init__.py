"""Replays of recorded records: through the core with a comparison of decisions."""
