"""Learning the points of `stagnation` from sessions that people judged."""
