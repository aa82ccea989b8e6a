"""What every layer shares: the JSON type, clocks, the log protocol, certificates."""
