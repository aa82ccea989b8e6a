"""The embedded cluster: an API server that kubectl takes for real, in this process."""
