"""What programs take away, by their command lines: one file for each kind of program."""
