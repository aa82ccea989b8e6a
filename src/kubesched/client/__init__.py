"""Talking to an API server: the calls a scheduler makes, and how they reach it."""
