"""Recordings that other agents made of themselves, as ActionEvents: for `haltline backtest`, and to publish."""
