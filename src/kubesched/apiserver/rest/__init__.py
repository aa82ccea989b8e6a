"""The REST API of resources: one handler per verb, the same for every kind."""
