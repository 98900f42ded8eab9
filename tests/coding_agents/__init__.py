"""Real coding agents, stopped by the installed hook."""
