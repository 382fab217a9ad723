"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says more about the machine than about the code; a first draw even builds Unicode tables.
settings.register_profile("tokenmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tokenmill")
