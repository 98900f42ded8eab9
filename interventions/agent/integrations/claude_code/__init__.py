"""Claude Code: its hooks, and the messages of its transcripts and of `--output-format stream-json`."""
