"""What operators see and do over HTTP: a read model of the topics, an API, and the pages that use it."""
