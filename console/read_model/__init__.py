"""The tables that the API reads, and the code that updates them from the topics."""
