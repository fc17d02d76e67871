"""How the tests run everywhere: no time limits for single examples, the same examples in CI."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A slow or shared machine must not fail a property; on CI the examples are the same at every run,
# so that a change is judged and not the day's luck. Developers get new ones each time.
settings.register_profile("everywhere", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("everywhere"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "everywhere")
