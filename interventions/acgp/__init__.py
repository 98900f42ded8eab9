"""ACGP: whether an agent may take a step, by the quality of its reasoning, by tripwires and by its record.

The order of evaluation is the published one: tripwires (only these can halt), deterministic checks (the detectors),
CTQ, the thresholds of the agent's tier, the flag, trust debt, review of the tier. The strictest result applies.
"""
