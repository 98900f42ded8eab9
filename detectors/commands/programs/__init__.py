"""Destructive command lines of programs: one file for each kind of program."""
