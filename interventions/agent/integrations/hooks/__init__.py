"""Hooks of coding agents: the JSON of each agent, and what answers them."""
