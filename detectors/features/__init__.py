"""Features of an event for detectors: the effects of its call, and its relation to earlier ones of the session."""
