"""The effect of the default policy, as a table in the documentation."""
