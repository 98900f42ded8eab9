"""Cases of one driver alone, by its name: the traps of its framework."""
