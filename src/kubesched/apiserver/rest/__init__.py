"""The REST API of resources: one handler per verb for all kinds, bodies in and renderings out."""
