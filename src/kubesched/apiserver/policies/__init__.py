"""Admission policies: rules in CEL that objects must satisfy to be stored."""
