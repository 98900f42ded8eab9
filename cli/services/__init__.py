"""Commands that run a process of the system."""
