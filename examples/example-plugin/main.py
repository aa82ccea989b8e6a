"""A scheduler with a plugin of one's own in it: the counterpart of app.NewSchedulerCommand(app.WithPlugin(...))."""

from __future__ import annotations

import sys

from example import Example

import kubesched.cli

if __name__ == "__main__":
    sys.exit(kubesched.cli.run(plugins=[Example]))
