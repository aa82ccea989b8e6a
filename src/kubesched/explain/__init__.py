"""Why a pod has no node, or has the one it has: every plugin's verdict, in words and numbers, and what would help."""
