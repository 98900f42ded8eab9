"""Snapshots of uncommitted work that a call is about to discard, and their restore: `haltline undo`."""
