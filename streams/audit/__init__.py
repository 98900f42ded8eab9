"""The audit: every record of every topic in a Delta table, each exactly once, and queries of it."""


class QueryFailed(Exception):
    """A query failed: the table does not exist, or the SQL is invalid."""


class NoRecords(QueryFailed):
    """The table exists, and has no such records."""
