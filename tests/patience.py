"""How long tests wait for Redis, which on a machine that runs many tests at once waits for its turn."""

from __future__ import annotations

from gateway.audit.log import AuditSettings

AS_SHIPPED = {"COATCHECK_REDIS_ANSWER_TIMEOUT_S": "0.5", "COATCHECK_REDIS_UNCONFIRMED_S": "5"}
"""For tests of a Redis that hangs; all others are about something else."""

PATIENT = {"COATCHECK_REDIS_ANSWER_TIMEOUT_S": "10", "COATCHECK_REDIS_UNCONFIRMED_S": "20"}
PATIENT_LOG = AuditSettings(limit_s=10)
