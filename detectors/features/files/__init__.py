"""The files that a session writes word for word, and what it does with files."""
