"""Second opinions: a separate process asks a model about uncertain findings, and writes its answers to a topic.

The core reads them like any other input, so a replay needs no model. `digest` and `spending` are pure; `judge` is the
HTTP client, `steps` reads a session's last events, `reviewer` is the process.
"""
