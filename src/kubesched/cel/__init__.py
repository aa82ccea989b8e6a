"""Kubernetes' dialect of the Common Expression Language: parsing, type checking, evaluation with cost limits."""

from kubesched.cel.environment import Environment, Program
from kubesched.cel.errors import CELError, CompileError, CostLimitError, EvaluationError, Issue
from kubesched.cel.program import ProgramError

__all__ = [
    "CELError",
    "CompileError",
    "CostLimitError",
    "Environment",
    "EvaluationError",
    "Issue",
    "Program",
    "ProgramError",
]
