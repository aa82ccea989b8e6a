"""The embedded API server: a Kubernetes API for kubectl and schedulers, in this process."""
