"""The audit: every record of every topic in a Delta table, each exactly once, and how to ask it."""


class QueryFailed(Exception):
    """The question could not be answered: no table there, or SQL that does not hold."""


class NoRecords(QueryFailed):
    """There is a table, and nothing in it of what was asked for."""
