"""What happens to an object before it is validated: defaults, admission plugins, allocated addresses."""
