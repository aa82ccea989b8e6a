"""The plugin contract: extension points, statuses, cycle state, events, registry, profiles."""
