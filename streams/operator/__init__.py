"""What operators do and ask from outside the worker."""
