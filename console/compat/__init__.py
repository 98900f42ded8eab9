"""Records and budgets of other systems over HTTP."""
