"""An agent as a child process: its output is read, and a kill ends its processes."""
