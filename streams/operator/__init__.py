"""The operations and queries of operators, outside the worker."""
