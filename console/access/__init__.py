"""Authentication and authorization: keys, sign-in, sessions."""
