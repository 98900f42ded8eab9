"""A deterministic simulation of haltline: its own code on simulated logs, groups, clocks, threads and stores."""
