"""kube-scheduler's command line: its flags, in its syntax, with its meanings.

click does not know Go's ways (``--flag=false`` for a boolean, ``-v5``, lists that add up, underscores for dashes), so
the flags are a table of our own and a small parser. Where one has no effect here, giving it says so.
"""

from kubesched.daemon.flags.options import Options as Options
from kubesched.daemon.flags.parse import Parsed as Parsed
from kubesched.daemon.flags.parse import parse as parse
from kubesched.daemon.flags.usage import usage as usage
