"""The table of kinds: where each is served, its fields and types, its conversions."""
