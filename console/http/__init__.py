"""HTTP as every route has it."""
