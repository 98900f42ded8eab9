"""Commands that run haltline's processes."""
