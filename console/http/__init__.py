"""HTTP parts that all routes share."""
