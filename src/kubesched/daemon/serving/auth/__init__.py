"""Authentication and authorization of requests, delegated to the API server as upstream does."""
