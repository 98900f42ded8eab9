"""From records to decisions and back: decodes, keeps states, publishes effects."""
