"""TLS for the HTTPS port: certificates, versions, cipher suites."""
