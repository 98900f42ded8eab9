"""A guarded call from beginning to end."""
