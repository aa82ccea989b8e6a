"""Validation of Jobs and CronJobs, and of their immutable fields."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesched.api.names import label_key_errors
from kubesched.apiserver.job_indexes import index_ranges
from kubesched.apiserver.validation.checks import Check, Comparison, each, too_many
from kubesched.apiserver.validation.containers import non_negative, one_of
from kubesched.apiserver.validation.cron_schedule import parse_schedule
from kubesched.apiserver.validation.naming import label_errors
from kubesched.apiserver.validation.pod import check_template
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.workloads import check_template_labels
from kubesched.base.types import JSON

_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
_OPERATORS = ("In", "NotIn")
_RESTARTS = ("OnFailure", "Never")
_FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
_SCHEDULING = ("affinity", "nodeSelector", "schedulingGates", "tolerations")
_MOST = 100_000
_MOST_RULES, _MOST_PATTERNS, _MOST_CODES = 20, 20, 255


def _job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _check_spec(spec, "spec", problems)
    check_template_labels(spec, problems)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        name = obj["metadata"].get("name") or ""
        host = f"{name}-{completions - 1}"
        if any(label_errors(host)):
            problems.invalid("metadata.name", name, f"will not able to create pod with invalid DNS label: {host}")


def _check_spec(spec: JSON, path: str, problems: Problems) -> None:
    for field in _COUNTS:
        non_negative(spec, field, path, problems)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        problems.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    one_of(spec, "completionMode", ("NonIndexed", "Indexed"), path, problems)
    if spec.get("completionMode") == "Indexed":
        _indexed(spec, path, problems)
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get("completionMode") in (None, "NonIndexed") and spec.get(field) is not None:
            problems.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    if spec.get("podFailurePolicy") is not None:
        _failure_policy(spec, f"{path}.podFailurePolicy.rules", problems)
    _success_policy(spec, f"{path}.successPolicy", problems)
    replacements = ("Failed",) if spec.get("podFailurePolicy") is not None else ("Failed", "TerminatingOrFailed")
    one_of(spec, "podReplacementPolicy", replacements, path, problems)
    template = spec.get("template") or {}
    check_template(template, f"{path}.template", problems)
    _restarts(spec, template.get("spec") or {}, f"{path}.template.spec.restartPolicy", problems)


def _restarts(spec: JSON, pod: JSON, path: str, problems: Problems) -> None:
    policy = pod.get("restartPolicy") or "Always"
    if policy == "Always":
        problems.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in _RESTARTS:
        problems.unsupported(path, policy, _RESTARTS)
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        problems.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _indexed(spec: JSON, path: str, problems: Problems) -> None:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if completions is None:
        problems.required(f"{path}.completions", "when completion mode is Indexed")
    if (spec.get("parallelism") or 0) > _MOST:
        detail = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        problems.invalid(f"{path}.parallelism", spec["parallelism"], detail)
    if failed is not None and completions is not None and failed > completions:
        problems.invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")
    if failed is not None and failed > _MOST:
        problems.invalid(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST}")


# --- policies ---------------------------------------------------------------------------------------------------------


def _failure_policy(spec: JSON, path: str, problems: Problems) -> None:
    rules = spec["podFailurePolicy"].get("rules") or []
    too_many(rules, _MOST_RULES, path, problems)
    pod = (spec.get("template") or {}).get("spec") or {}
    names = {each_.get("name") for kind in ("containers", "initContainers") for each_ in pod.get(kind) or []}
    for rule, where in each(rules, path):
        action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or []
        _choose(action, _ACTIONS, f"{where}.action", problems)
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            problems.invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set")
        if codes is not None:
            _exit_codes(codes, names, f"{where}.onExitCodes", problems)
        too_many(conditions, _MOST_PATTERNS, f"{where}.onPodConditions", problems)
        for pattern, here in each(conditions, f"{where}.onPodConditions"):
            for error in label_key_errors(pattern.get("type") or ""):
                problems.invalid(f"{here}.type", pattern.get("type") or "", error)
            _choose(pattern.get("status"), _STATUSES, f"{here}.status", problems)
        if (codes is not None) == bool(conditions):
            ending = "both OnExitCodes and OnPodConditions is not supported"
            ending = ending if conditions else "one of OnExitCodes and OnPodConditions is required"
            problems.add("FieldValueInvalid", where, f"Invalid value: specifying {ending}")


def _choose(value: str | None, known: tuple[str, ...], path: str, problems: Problems) -> None:
    if not value:
        words = " ".join(f'"{word}"' for word in known)
        problems.required(path, f"valid values: [{words}]")
    elif value not in known:
        problems.unsupported(path, value, known)


def _exit_codes(part: JSON, containers: set[str | None], path: str, problems: Problems) -> None:
    operator, name, values = part.get("operator"), part.get("containerName"), part.get("values")
    _choose(operator, _OPERATORS, f"{path}.operator", problems)
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        problems.invalid(f"{path}.containerName", name, detail)
    if not values:
        problems.invalid(f"{path}.values", values, "at least one value is required")
        return
    too_many(values, _MOST_CODES, f"{path}.values", problems)
    for index, (value, where) in enumerate(each(values, f"{path}.values")):
        if operator == "In" and value == 0:
            problems.invalid(where, value, "must not be 0 for the In operator")
        if value in values[:index]:
            problems.duplicate(where, value)
    if values != sorted(values):
        problems.invalid(f"{path}.values", values, "must be ordered")


def _success_policy(spec: JSON, path: str, problems: Problems) -> None:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        problems.invalid(path, policy, "requires indexed completion mode")
    if not policy.get("rules"):
        problems.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    for rule, here in each(policy.get("rules"), f"{path}.rules"):
        indexes = rule.get("succeededIndexes")
        if indexes is None and rule.get("succeededCount") is None:
            problems.required(here, "at least one of succeededCount or succeededIndexes must be specified")
        try:
            ranges = index_ranges(indexes) if indexes is not None else []
        except ValueError as error:
            problems.invalid(f"{here}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
            continue
        if ranges and ranges[-1].stop > (spec.get("completions") or 0):
            problems.invalid(f"{here}.succeededIndexes", indexes, "error parsing succeededIndexes: too large index")


# --- cron jobs --------------------------------------------------------------------------------------------------------


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _schedule_problem(schedule: str) -> str:
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    try:
        parse_schedule(schedule)
    except ValueError as error:  # ScheduleError, or a number with thousands of digits
        return str(error)
    return ""


def _cron_job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        problems.required("spec.schedule")
    elif detail := _schedule_problem(schedule):
        problems.invalid("spec.schedule", schedule, detail)
    non_negative(spec, "startingDeadlineSeconds", "spec", problems)
    zone = spec.get("timeZone")
    if zone == "":
        problems.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone is not None and not _is_zone(zone):
        problems.invalid("spec.timeZone", zone, f"unknown time zone {zone}")
    one_of(spec, "concurrencyPolicy", ("Allow", "Forbid", "Replace"), "spec", problems)
    _check_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec", problems)
    for field in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        non_negative(spec, field, "spec", problems)


def _compare_jobs(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = old["spec"], new["spec"]
    if before.get("selector") != after.get("selector"):
        problems.invalid("spec.selector", after.get("selector"), IMMUTABLE)
    completions = after.get("completions")
    if before.get("completions") != completions and before.get("completionMode") != "Indexed":
        problems.invalid("spec.completions", completions, IMMUTABLE)
    elif before.get("completions") != completions and completions != after.get("parallelism"):
        problems.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")
    for field in _FIXED:
        if before.get(field) != after.get(field):
            problems.invalid(f"spec.{field}", after.get(field), IMMUTABLE)
    if not before.get("suspend"):
        if before.get("template") != after.get("template"):
            problems.invalid("spec.template", after.get("template"), IMMUTABLE)
    elif _fixed_part(before) != _fixed_part(after):
        problems.invalid("spec.template.spec", (after.get("template") or {}).get("spec"), IMMUTABLE)


def _fixed_part(spec: JSON) -> JSON:
    """What may not change in the template of a suspended job: all but where its pods may run and what they need."""
    pod = (spec.get("template") or {}).get("spec") or {}
    fixed = {field: value for field, value in pod.items() if field not in _SCHEDULING}
    for kind in ("containers", "initContainers"):
        if kind in fixed:
            fixed[kind] = [{**container, "resources": None} for container in fixed[kind]]
    return fixed


CHECKS: dict[str, Check] = {"batch/jobs": _job, "batch/cronjobs": _cron_job}
COMPARISONS: dict[str, Comparison] = {"batch/jobs": _compare_jobs}
