"""Reproducible scenarios: a whole cluster in one process, on a virtual clock. Hours pass in seconds."""

from kubesched.api.builders import node as node
from kubesched.api.builders import pod as pod
from kubesched.simulator.comparison import ScenarioComparison as ScenarioComparison
from kubesched.simulator.comparison import compare as compare
from kubesched.simulator.report import Report as Report
from kubesched.simulator.scenario import ScenarioFileError as ScenarioFileError
from kubesched.simulator.scenario_client import ScenarioClient as ScenarioClient
from kubesched.simulator.simulating import simulate as simulate
from kubesched.simulator.trace_file import play_trace as play_trace
