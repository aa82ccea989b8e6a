"""Requests and responses: bodies in and out, content negotiation, Status objects."""
