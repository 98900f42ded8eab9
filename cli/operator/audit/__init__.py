"""`haltline audit`: queries, records, labels, and the care of the table."""
