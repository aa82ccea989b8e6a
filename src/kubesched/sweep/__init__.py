"""Many runs: scenarios, configurations and seeds on all cores or many machines; and tuning on top of it."""

from kubesched.sweep.executors import opened_executor as opened_executor
from kubesched.sweep.jobs import METRICS as METRICS
from kubesched.sweep.jobs import Job as Job
from kubesched.sweep.results import Run as Run
from kubesched.sweep.results import SweepResults as SweepResults
from kubesched.sweep.space import parameters as parameters
from kubesched.sweep.sweeping import summary as summary
from kubesched.sweep.sweeping import sweep as sweep
from kubesched.sweep.tuning import Objective as Objective
from kubesched.sweep.tuning import Task as Task
from kubesched.sweep.tuning import tune as tune
