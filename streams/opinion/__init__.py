"""Second opinions: a process of its own asks a model about findings in doubt, and writes its answers to a topic.

The core reads them as any other input, so a replay needs no model. `digest` and `spending` are pure; `judge` is the
HTTP client, `steps` reads a session's last events, `reviewer` is the process.
"""
