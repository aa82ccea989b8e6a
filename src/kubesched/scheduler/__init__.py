"""The loop around the engine: what turns decisions into a scheduler that never loses a pod."""
