"""The demonstration: the whole loop on one machine, with sample agents and facts that are checked."""
