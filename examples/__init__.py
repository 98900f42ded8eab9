"""Examples: an agent for each framework behind haltline, with a scripted model; for `haltline init --framework`."""
