"""What a step review is made of: what an action is, how risky, how rational, and what is decided. Pure, no state."""
