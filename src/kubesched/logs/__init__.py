"""Logs in klog's format, so that scripts, parsers and alerts written for kube-scheduler's log keep working.

structlog is not used. Everything it would render here is specific to us (klog's header, quoting and JSON), and its
chain of processors copies a dictionary per message and supports neither klog's levels nor ``--vmodule``. This package
is a callable that formats one line and writes it.
"""

from kubesched.logs.logger import ERROR as ERROR
from kubesched.logs.logger import Logger as Logger
from kubesched.logs.options import LoggingOptions as LoggingOptions
from kubesched.logs.options import LoggingProblem as LoggingProblem
from kubesched.logs.references import KRef as KRef
