"""Integrations of haltline with existing agents: one module, or folder, for each kind.

A framework is imported only when its integration is used.
"""
