"""What a decision brings to the agent: advice, limits, changed arguments, rollback."""
