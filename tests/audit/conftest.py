from __future__ import annotations

from tests.redis_fixture import _session_redis_server, own_redis_server, redis_server

__all__ = ["_session_redis_server", "own_redis_server", "redis_server"]
