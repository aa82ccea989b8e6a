"""Scenarios on a virtual clock: a whole cluster in one process, hours of it in seconds, twice with the same outcome."""

from kubesched.api.builders import node as node
from kubesched.api.builders import pod as pod
from kubesched.simulator.scenario_client import ScenarioClient as ScenarioClient
