"""Clients of the API server in the same process, without a socket."""
