"""What happened: rows made of records, the same in memory and in a database, and what they mean."""
