"""Deterministic simulation with faults: production code on a virtual clock, every disturbance from one seed."""
