"""One session in one file: what it did, what was decided on it, why, and the proof that nothing of it was changed."""
