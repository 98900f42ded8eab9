"""Events over HTTP, as JSON, CloudEvents and OTLP."""
