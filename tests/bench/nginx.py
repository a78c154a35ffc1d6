"""Configurations of Debian's nginx: the upstream with its fixed answer, and the plain proxy that everything is held against."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.bench.answers import UNIQUE, json_answer

_LONGEST: Final = 3000
"""Characters of one parameter; nginx takes 4,096 bytes."""

_FRAME: Final = """
daemon off;
worker_processes 1;
pid {folder}/{name}.pid;
error_log {folder}/{name}.error.log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  default_type application/json;
  keepalive_requests 1000000000;
  keepalive_timeout 600s;
  client_body_temp_path {folder}/{name}.body;
  proxy_temp_path {folder}/{name}.proxy;
  fastcgi_temp_path {folder}/{name}.fastcgi;
  uwsgi_temp_path {folder}/{name}.uwsgi;
  scgi_temp_path {folder}/{name}.scgi;
{servers}
}}
"""


def upstream(port: int, folder: Path) -> Path:
    """The fixed answer, with $request_id (32 hexadecimal digits, new for each request) as its IDs' own part."""
    sets: list[str] = []
    said: list[str] = []
    for number, text in enumerate(json_answer().split(UNIQUE)):
        if number:
            said.append("${request_id}")
        for start in range(0, len(text), _LONGEST):
            sets.append(f"    set $part{len(sets)} '{text[start : start + _LONGEST]}';")
            said.append(f"${{part{len(sets) - 1}}}")
    server = "\n".join(
        [f"  server {{ listen 127.0.0.1:{port} backlog=2048;", *sets, f'    return 200 "{"".join(said)}";', "  }"]
    )
    return _write("upstream", folder, server)


def proxy(port: int, upstream_port: int, folder: Path) -> Path:
    """Keep-alive on both sides, answers handed on as they come: what a proxy of streams is set to."""
    return _write(
        f"proxy-{port}",
        folder,
        f"""
  upstream backend {{ server 127.0.0.1:{upstream_port}; keepalive 1024; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=2048;
    location /v1/realtime {{
      proxy_pass http://127.0.0.1:{upstream_port};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection "upgrade";
      proxy_read_timeout 600s;
    }}
    location / {{
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }}
  }}""",
    )


def _write(name: str, folder: Path, servers: str) -> Path:
    path = folder / f"{name}.conf"
    path.write_text(_FRAME.format(name=name, folder=folder, servers=servers))
    return path
