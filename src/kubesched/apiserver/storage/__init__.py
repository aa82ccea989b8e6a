"""Objects with versions and a history to watch, in memory and on disk."""
