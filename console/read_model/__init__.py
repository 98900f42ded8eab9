"""The tables that the API answers from, and what keeps them up with the topics."""
