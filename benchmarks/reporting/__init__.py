"""What was measured, as one document, tables and comparisons."""
