"""Errors about which the user can do something, as one line that says what."""

from __future__ import annotations

from kubesched.client.protocol import ApiError

UNAUTHORIZED = 401


def in_words(problem: BaseException) -> str:
    """A problem that a user can do something about, with what to do if it is the way to the cluster."""
    if isinstance(problem, LookupError):
        return str(problem.args[0] if problem.args else problem)
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    if isinstance(problem, ApiError) and problem.code == UNAUTHORIZED:
        return f"{problem}: the cluster refuses the credentials in the kubeconfig; they are wrong, or have expired"
    if isinstance(problem, ConnectionError | TimeoutError) and "; check " not in str(problem):
        return f"{problem}; check that the cluster runs, and its address in the kubeconfig"
    return str(problem)
