"""`haltline replay` and `haltline backtest`: recorded events, evaluated again by the same rules or others."""
