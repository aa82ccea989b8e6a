"""The daemon's HTTPS port: the same paths and texts as kube-scheduler's, open to the same users.

`from_flags` builds everything from the command line and `server` listens. `pages` holds what is served, `auth` decides
who may see it, and `tls` holds the certificates that the server presents.
"""
