"""haltline stops runaway AI agents while they run."""
