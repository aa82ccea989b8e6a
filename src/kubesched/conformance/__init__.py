"""Replaying recorded kube-scheduler decisions and comparing, field by field."""
