"""Rows that say what a call does, by domain; a line each."""
