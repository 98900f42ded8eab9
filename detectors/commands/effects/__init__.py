"""Effects by tables that a person can read and extend: programs, requests, tools, texts on buttons."""
