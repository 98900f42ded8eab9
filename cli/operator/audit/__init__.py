"""`haltline audit`: queries, records, labels, and maintenance of the table."""
