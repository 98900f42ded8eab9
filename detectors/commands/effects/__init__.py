"""Effects by tables that a person can read and extend: programs, requests, statements, tools, texts on buttons.

Misses: whatever no line of a table names. A line more is all that it takes.
"""
