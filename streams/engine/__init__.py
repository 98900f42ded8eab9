"""The decisions: pure functions of policy, state and record. No clock, no I/O."""
