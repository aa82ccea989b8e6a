"""Workloads in the format of Kubernetes' scheduler_perf: reading them, and running them on any API server."""
