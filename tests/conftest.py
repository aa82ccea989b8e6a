"""Settings for the whole suite."""

import os

from hypothesis import HealthCheck, settings

# Time limits per example would make results depend on how busy the machine is; the number of examples sets how long a
# search takes. "thorough" is for a long look before a release: HYPOTHESIS_PROFILE=thorough pytest.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("default", PATIENT, max_examples=100)
settings.register_profile("thorough", PATIENT, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
