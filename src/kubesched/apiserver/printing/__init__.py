"""The Tables that kubectl get prints."""
