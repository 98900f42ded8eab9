"""The command line `haltline`: one file for each group of commands."""
