"""The parts of an observation: what is given with the event, its traits, and how its call failed."""
