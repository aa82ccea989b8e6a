"""Authentication, RBAC, reviews and service account tokens."""
