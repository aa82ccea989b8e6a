"""Scheduling as a Gymnasium environment, on the production engine; and trained policies as Score plugins.

Gymnasium is an extra: ``pip install 'kubesched[gym]'``.
"""

from __future__ import annotations

try:
    import gymnasium as _gymnasium  # noqa: F401
except ImportError as error:
    raise ImportError("kubesched.gym needs Gymnasium: pip install 'kubesched[gym]'") from error

from kubesched.gym.environment import Arriving as Arriving
from kubesched.gym.environment import SchedulingEnv as SchedulingEnv
from kubesched.gym.environment import Transition as Transition
from kubesched.gym.features import NODE_COLUMNS as NODE_COLUMNS
from kubesched.gym.features import POD_COLUMNS as POD_COLUMNS
from kubesched.gym.metrics import fragmentation as fragmentation
from kubesched.gym.metrics import less_fragmentation as less_fragmentation
from kubesched.gym.metrics import placed as placed
from kubesched.gym.metrics import typical as typical
from kubesched.gym.policy import LinearPolicy as LinearPolicy
from kubesched.gym.policy import PolicyScore as PolicyScore
