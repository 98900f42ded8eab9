"""The demonstration: the whole loop on one machine, with sample agents and verified facts."""
