"""kube-scheduler's command line: its flags, in its syntax, with its meanings.

click does not know Go's ways (``--flag=false`` for a boolean, ``-v5``, lists that add up, underscores for dashes), so
the flags are a table of our own and a small parser. Where one has no effect here, giving it says so.
"""

from kubesched.cli.flags.options import Options as Options
from kubesched.cli.flags.parse import Parsed as Parsed
from kubesched.cli.flags.parse import parse as parse
from kubesched.cli.flags.usage import usage as usage
