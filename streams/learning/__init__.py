"""Training of the `stagnation` model from sessions that people judged."""
