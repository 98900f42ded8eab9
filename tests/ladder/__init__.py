"""What the default policy does, as a table in the documentation."""
