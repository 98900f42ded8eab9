"""A complete agent of each framework behind haltline, with a scripted model; `haltline init --framework` writes it."""
