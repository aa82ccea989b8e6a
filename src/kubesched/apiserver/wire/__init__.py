"""What passes over the wire: requests and responses, content negotiation, protobuf, Status objects."""
