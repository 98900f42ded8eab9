"""What leaves the agent: without secrets and personal data."""
