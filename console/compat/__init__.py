"""Other systems' records and budgets over HTTP."""
