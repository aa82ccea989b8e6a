"""Logs as klog writes them, so that whoever greps, parses or alerts on kube-scheduler's log need not change a thing.

There is no structlog underneath. All that it could render here would be ours anyway (klog's header, its quoting, its
JSON), while its chain of processors copies a dictionary per message and knows neither klog's levels nor ``--vmodule``.
What is left is this package: a callable that formats one line and writes it.
"""

from kubesched.logs.logger import ERROR as ERROR
from kubesched.logs.logger import Logger as Logger
from kubesched.logs.options import LoggingOptions as LoggingOptions
from kubesched.logs.options import LoggingProblem as LoggingProblem
from kubesched.logs.references import KRef as KRef
