"""Payloads of decisions for the agent: advice, limits, changed arguments, rollback."""
