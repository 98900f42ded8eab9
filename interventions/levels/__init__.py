"""Levels of findings: defaults, and the strategies of policies and packages. Pure."""
