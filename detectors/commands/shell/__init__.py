"""Shell text into the programs that it would run, with their arguments, input and redirections."""
