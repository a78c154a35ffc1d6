from __future__ import annotations

import pytest

from gateway.stores.address import Address, Topology, parse_target


def test_a_single_server_is_named_by_host_port_and_database() -> None:
    target = parse_target("redis://user:p%40ss@example.test:7000/2")
    assert target.topology is Topology.SINGLE
    assert target.addresses == (Address("example.test", 7000),)
    assert (target.username, target.password, target.db, target.tls) == ("user", "p@ss", 2, None)


def test_a_password_without_a_user_and_the_standard_ports() -> None:
    target = parse_target("redis://:secret@[::1]")
    assert target.addresses == (Address("::1", 6379),)
    assert (target.username, target.password) == (None, "secret")
    assert parse_target("redis+sentinel://a/main").addresses == (Address("a", 26379),)


def test_a_unix_socket_is_named_by_its_path() -> None:
    target = parse_target("unix:///run/redis/redis%20server.sock?db=1")
    assert target.addresses == (Address("/run/redis/redis server.sock", 0),)
    assert target.db == 1


def test_a_cluster_and_a_sentinel_group_name_several_hosts() -> None:
    cluster = parse_target("redis+cluster://u:p@a:1,b:2,c")
    assert cluster.topology is Topology.CLUSTER
    assert cluster.addresses == (Address("a", 1), Address("b", 2), Address("c", 6379))
    sentinel = parse_target("redis+sentinel://u:p@a,b:7/main/3?sentinel_password=sp")
    assert (sentinel.service, sentinel.db, sentinel.sentinel_password) == ("main", 3, "sp")


def test_tls_always_verifies_the_certificate_and_the_name() -> None:
    context = parse_target("rediss://example.test").tls
    assert context is not None
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://host",
        "redis://",
        "redis://a,b",
        "redis+cluster://a/1",
        "redis+sentinel://a",
        "redis+other://a",
        "redis://a/x",
        "redis://a/0/1",
        "redis://a?ssl_cert_reqs=none",
        "redis://a#x",
        "unix+cluster:///x",
    ],
)
def test_what_has_no_meaning_is_refused_without_repeating_the_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"Redis URL|redis\+sentinel") as refused:
        parse_target(url.replace("://", "://user:hunter2@"))
    assert "hunter2" not in str(refused.value)


def test_a_target_does_not_show_its_passwords() -> None:
    shown = repr(parse_target("redis+sentinel://u:hunter2@a/main?sentinel_password=hunter3"))
    assert "hunter" not in shown
