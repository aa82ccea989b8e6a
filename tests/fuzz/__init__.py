"""Damaged input for everything that reads any."""
