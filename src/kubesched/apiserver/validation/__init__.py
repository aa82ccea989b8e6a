"""Upstream's validation rules, with upstream's messages."""
