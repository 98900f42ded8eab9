"""Redaction of secrets and personal data before anything leaves the agent."""
