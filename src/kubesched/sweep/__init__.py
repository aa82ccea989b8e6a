"""Many runs: scenarios, configurations and seeds on all cores or many machines; and tuning on top of it."""

from kubesched.sweep.api import Sweep as Sweep
from kubesched.sweep.api import sweep as sweep
from kubesched.sweep.api import tune as tune
from kubesched.sweep.executors import ExecutorError as ExecutorError
from kubesched.sweep.executors import opened_executor as opened_executor
from kubesched.sweep.jobs import METRICS as METRICS
from kubesched.sweep.results import Run as Run
from kubesched.sweep.tuning import Tuned as Tuned
from kubesched.sweep.tuning import TuningError as TuningError
