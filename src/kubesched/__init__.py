"""A complete Kubernetes scheduler in Python."""
