"""Haltline in front of agents that are there already: one module, or folder, for each kind.

What needs a framework imports it when it is used, and nothing of it before.
"""
