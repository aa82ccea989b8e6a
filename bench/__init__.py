"""Throughput of decisions, in process: `make bench`."""
