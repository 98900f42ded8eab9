"""The parts that all detectors share: base class, settings, windows, dispatch."""
