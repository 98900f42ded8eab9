"""Restrictions in force for a session, and the refusals that follow."""
