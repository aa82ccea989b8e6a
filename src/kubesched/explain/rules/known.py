"""The rules of all plugins that have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubesched.explain.change import Change
from kubesched.explain.rules import devices, nodes, pods, resources, volumes
from kubesched.explain.rules.rule import Detail, Rule, no_fixes
from kubesched.explain.survey import Survey, Verdict

RULES: Final[Mapping[str, Rule]] = {
    "NodeResourcesFit": Rule(resources.details, resources.fixes),
    "TaintToleration": Rule(nodes.taint_details, nodes.taint_fixes),
    "NodeUnschedulable": Rule(nodes.cordon_details, nodes.cordon_fixes),
    "NodeName": Rule(nodes.name_details, no_fixes),
    "NodeAffinity": Rule(nodes.affinity_details, nodes.affinity_fixes),
    "NodePorts": Rule(nodes.port_details, nodes.port_fixes),
    "PodTopologySpread": Rule(pods.spread_details, pods.spread_fixes),
    "InterPodAffinity": Rule(pods.affinity_details, pods.affinity_fixes),
    "VolumeBinding": Rule(volumes.binding_details, volumes.binding_fixes),
    "VolumeZone": Rule(volumes.zone_details, volumes.zone_fixes),
    "VolumeRestrictions": Rule(volumes.restriction_details, volumes.restriction_fixes),
    "NodeVolumeLimits": Rule(volumes.limit_details, volumes.restriction_fixes),
    "DynamicResources": Rule(devices.details, devices.fixes),
}


def details_of(survey: Survey, verdict: Verdict, row: int) -> list[Detail]:
    """Why a plugin rejects a row. A plugin without a rule, and a rule without an answer, show the status message."""
    rule = RULES.get(verdict.plugin)
    found = [] if rule is None else rule.details(survey, row)
    return found or [Detail(verdict.status(row).message or "no reason given")]


def fixes_of(survey: Survey, verdict: Verdict, row: int) -> list[Change]:
    """Changes each of which may satisfy a plugin on a row; cheapest first."""
    rule = RULES.get(verdict.plugin)
    return [] if rule is None else sorted(rule.fixes(survey, row), key=lambda each: each.cost)
