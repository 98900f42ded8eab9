"""From findings to one decision. Pure."""
