"""`haltline replay` and `haltline backtest`: recorded events once more, under the same rules or others."""
