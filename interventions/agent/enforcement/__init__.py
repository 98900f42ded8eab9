"""What is in force for a session, and what it is refused."""
