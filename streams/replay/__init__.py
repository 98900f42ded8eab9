"""What was recorded, once more: through the core and compared with what was decided then, or onto another topic."""
