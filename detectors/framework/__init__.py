"""Shared parts of all detectors: base class, settings, windows, dispatch."""
