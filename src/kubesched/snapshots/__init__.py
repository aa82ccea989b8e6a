"""Clusters in files: snapshots, recordings, manifests, and the formats of other simulators."""
