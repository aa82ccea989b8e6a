"""The scheduler as a long-running process: flags, configuration, leader election, an HTTPS port, signals.

`main` runs a command line. It parses the flags (`flags`), prepares everything that can fail (`setup`) and then runs a
`process`. `serving` holds the HTTPS port.
"""
