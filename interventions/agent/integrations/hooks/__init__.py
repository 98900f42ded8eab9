"""Hooks of coding agents: the JSON of each agent, and the companion that answers them."""
