"""kube-scheduler's command line: the same flags, syntax and meanings.

click does not support Go's syntax (``--flag=false`` for a boolean, ``-v5``, repeated lists that add up, underscores for
dashes), so the flags are a table (`declarations`) and a small parser. A flag without effect here logs a warning.
"""

from kubesched.daemon.flags.options import Options as Options
from kubesched.daemon.flags.parse import Parsed as Parsed
from kubesched.daemon.flags.parse import parse as parse
from kubesched.daemon.flags.usage import usage as usage
