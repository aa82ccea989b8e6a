"""Replays recorded kube-scheduler decisions and compares ours with them, field by field."""
