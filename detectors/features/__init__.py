"""An event as detectors see it: what the call does, and what the session did before it."""
