"""Who may use the console: keys, sign-in, sessions."""
