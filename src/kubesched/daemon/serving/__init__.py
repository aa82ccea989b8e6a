"""The daemon's HTTPS port: the same paths and texts as kube-scheduler's, open to the same users.

`preparation` binds the port and loads what can be wrong, `from_flags` builds the rest from the command line, and
`server` serves. `pages` holds what is served, `auth` decides who may see it, and `tls` holds the certificates that the
server presents.
"""
