"""Simulated kubelets: pods start, run and end by timers, without containers."""
