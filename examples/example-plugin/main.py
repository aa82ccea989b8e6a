"""A scheduler with a plugin of your own: the counterpart of app.NewSchedulerCommand(app.WithPlugin(...))."""

from __future__ import annotations

import sys

from example import Example

import kubesched

if __name__ == "__main__":
    sys.exit(kubesched.run(plugins=[Example]))
