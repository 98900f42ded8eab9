"""The console: a read model of the topics, an HTTP API, and the pages that use it."""
