"""The decisions, as pure functions of policy, state and record. No clock, no I/O."""
