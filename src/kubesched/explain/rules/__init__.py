"""What each built-in plugin's rejection means, with names and numbers, and which changes would satisfy the plugin."""
