"""Settings for the whole suite."""

import os

from hypothesis import HealthCheck, Phase, settings

# Time limits per example would make results depend on how busy the machine is; the number of examples sets how long a
# search takes. The default profile tries the same examples in every run, so that a change is judged by what it changed.
# HYPOTHESIS_PROFILE=thorough tries others each time, for a long look before a release; "unshrunk" shows the first
# failure as it was found, for when looking for a smaller one takes too long.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("default", PATIENT, max_examples=100, derandomize=True)
settings.register_profile("thorough", PATIENT, max_examples=2000)
settings.register_profile("unshrunk", PATIENT, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
