"""Events that other programs produce: parsed, redacted, and published."""
