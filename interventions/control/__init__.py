"""Commands of operators and their effects: kills, freezes, approvals, incidents. Pure."""
