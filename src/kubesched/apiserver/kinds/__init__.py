"""The table of kinds, their schemas, and custom resources."""
