"""The parts of a step review: an action's category, risk and rationality, and the verdict. Pure functions, no state."""
