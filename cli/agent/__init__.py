"""Commands beside an agent."""
