"""Settings: where they come from, what is refused, and that all of it is refused at once."""

from __future__ import annotations

import base64
import os
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from gateway.audit.log import AuditSettings
from gateway.settings import Settings, SettingsError, describe, example, load, wants_colours
from gateway.settings.keys import KEYS, SECTIONS
from gateway.stores.address import Topology
from gateway.stores.node import LinkSettings
from gateway.stores.server import Durability

ROOT = base64.b64encode(bytes(range(32))).decode()
OTHER_ROOT = base64.b64encode(bytes(range(40, 72))).decode()
ENV = {"COATCHECK_ROOT_KEY": ROOT, "OPENAI_API_KEY": "sk-planted-secret"}
ISSUER = """
[[issuer]]
issuer = "https://id.example.com"
audience = "gateway"
"""
SHIPPED = Path(__file__).parents[1] / "deploy" / "coatcheck.toml"


@pytest.fixture(autouse=True)
def _an_empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(text: str) -> Path:
    path = Path("settings.toml")
    path.write_text(text)
    return path


def key_file(mode: int, text: str = ROOT) -> Path:
    path = Path("root.key")
    path.write_text(text)
    path.chmod(mode)
    return path


def mistakes(env: dict[str, str] = ENV, text: str = "", **overrides: object) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        load(overrides, env, config(text) if text else None)
    return {mistake.place: mistake.mend for mistake in caught.value.mistakes}


def test_the_defaults_need_only_a_root_key_and_an_upstream_key() -> None:
    settings = load({}, ENV)
    assert settings.root_key == bytes(range(32))
    assert settings.openai.credential().api_key == "sk-planted-secret"
    assert (settings.server.port, settings.metrics.port, settings.redis.target) == (8080, 9464, None)


def test_arguments_win_over_the_environment_and_the_environment_over_the_file() -> None:
    file = config('data = "a"\n[server]\nport = 1\nhost = "::1"\n[metrics]\nport = 5\n')
    settings = load(
        {"server.port": 3, "server.host": None}, {**ENV, "COATCHECK_PORT": "2", "COATCHECK_METRICS_PORT": "6"}, file
    )
    assert (settings.server.port, settings.metrics.port, settings.server.host, settings.data) == (
        3,
        6,
        "::1",
        Path("a"),
    )


def test_every_mistake_is_told_at_once_with_its_place_and_its_mend() -> None:
    text = (
        "productoin = true\n[server]\nport = 70000\n[redis]\nanswer_timeout_s = nan\n"
        '[[issuer]]\nissuer = "http://x"\ntenant = "acme"\n'
    )
    found = mistakes({"COATCHECK_ROOT_KEY": "short", "COATCHECK_LOG_LEVEL": "loud"}, text)
    assert found == {
        "settings.toml, productoin": "is no setting; perhaps production?",
        "COATCHECK_ROOT_KEY": "must be 32 bytes in base64; make one with: openssl rand -base64 32",
        "settings.toml, [server] port": "must be at most 65535",
        "COATCHECK_LOG_LEVEL": "must be one of debug, info, warning, error",
        "settings.toml, [redis] answer_timeout_s": "must be above 0",
        "settings.toml, [[issuer]] number 1, audience": "is missing",
        "settings.toml, [[issuer]] number 1, tenant": "must be a tenant's ID, 16 of a-z and 2-7, as 'tenant list' shows it",
        "OPENAI_API_KEY or [openai] api_key_file": "is missing; without one there are the demo "
        "(python -m gateway demo), and the stand-in provider (python -m gateway stand-in), which takes any key",
    }


@pytest.mark.parametrize("text", ["whsec_", "whsec_...", "whsec_c2hvcnQ=", "c2VydmljZS1zZXJ2aWNlLXNlcnZpY2U=", "plain"])
def test_a_webhook_secret_that_would_make_a_short_key_or_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "second.whsec"
    file.write_text(text)
    file.chmod(0o600)
    table = f'[[openai.upstream]]\nwebhook_secret_file = "{file}"\n'
    found = mistakes({**ENV, "OPENAI_WEBHOOK_SECRET": text}, table)
    assert found["OPENAI_WEBHOOK_SECRET"].startswith("must be whsec_")
    assert found["settings.toml, [[openai.upstream]] number 1, webhook_secret_file"].startswith("must be whsec_")


def test_a_missing_root_key_does_not_start_and_is_never_made_up() -> None:
    assert "COATCHECK_ROOT_KEY or root_key_file" in mistakes({"OPENAI_API_KEY": "sk-x"})
    assert "COATCHECK_ROOT_KEY or root_key_file" in mistakes({**ENV, "COATCHECK_ROOT_KEY": ""})


@pytest.mark.parametrize(
    "text",
    [
        "",
        ROOT[:-4],
        ROOT + ROOT,
        ROOT[:-1],
        ROOT[:10] + "!" + ROOT[11:],
        base64.b64encode(b"changeme" * 4).decode(),
        "A" * 43 + "=",
    ],
)
def test_a_root_key_of_another_length_alphabet_or_without_randomness_is_refused(text: str) -> None:
    file = key_file(0o600, text)
    assert "COATCHECK_ROOT_KEY_FILE" in mistakes({"OPENAI_API_KEY": "sk-x", "COATCHECK_ROOT_KEY_FILE": str(file)})


def test_a_root_key_comes_from_a_file_that_its_owner_alone_may_read() -> None:
    file = key_file(0o600, ROOT + "\n")
    assert load({}, {"OPENAI_API_KEY": "x", "COATCHECK_ROOT_KEY_FILE": str(file)}).root_key == bytes(range(32))
    assert load({}, {"OPENAI_API_KEY": "x"}, config(f'root_key_file = "{file}"')).root_key == bytes(range(32))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666])
def test_a_secret_file_that_others_may_read_or_change_is_refused(mode: int) -> None:
    found = mistakes({"OPENAI_API_KEY": "sk-x", "COATCHECK_ROOT_KEY_FILE": str(key_file(mode))})
    assert found == {"COATCHECK_ROOT_KEY_FILE": "names a file that others may read or change; run: chmod 600 on it"}


def test_a_secret_set_twice_or_missing_its_file_is_refused() -> None:
    assert "COATCHECK_ROOT_KEY_FILE" in mistakes({**ENV, "COATCHECK_ROOT_KEY_FILE": str(key_file(0o600))})
    found = mistakes({"OPENAI_API_KEY": "sk-x", "COATCHECK_ROOT_KEY_FILE": "absent"})
    assert found == {"COATCHECK_ROOT_KEY_FILE": "names a file that cannot be read: No such file or directory"}
    assert "COATCHECK_ROOT_KEY_FILE" in mistakes({"OPENAI_API_KEY": "sk-x", "COATCHECK_ROOT_KEY_FILE": "/dev/zero"})


def test_secrets_in_the_configuration_file_are_refused_by_name() -> None:
    text = f'root_key = "{ROOT}"\n[redis]\nurl = "redis://u:pw@h/0"\n[openai]\napi_key = "sk-x"\n'
    assert mistakes(ENV, text).keys() == {
        "settings.toml, root_key", "settings.toml, [openai] api_key", "settings.toml, [redis] url",
    }  # fmt: skip


def test_no_secret_shows_in_a_repr_or_in_a_mistake() -> None:
    env = {
        **ENV, "REDIS_URL": "redis://user:planted-password@h", "COATCHECK_AUDIT_ROOT_KEY": OTHER_ROOT,
    }  # fmt: skip
    shown = repr(load({}, env))
    for secret in (ROOT, OTHER_ROOT, "planted", repr(bytes(range(32)))):
        assert secret not in shown
    wrong = {**env, "COATCHECK_ROOT_KEY": ROOT + "x", "OPENAI_API_KEY": "planted key", "REDIS_URL": "red://u:planted@h"}
    assert not re.search(f"planted|{re.escape(ROOT)}", str(mistakes(wrong)))


def test_the_audit_root_key_must_be_another_key() -> None:
    assert "COATCHECK_AUDIT_ROOT_KEY" in mistakes({**ENV, "COATCHECK_AUDIT_ROOT_KEY": ROOT})
    assert load({}, {**ENV, "COATCHECK_AUDIT_ROOT_KEY": OTHER_ROOT}).audit_root_key == bytes(range(40, 72))


def test_a_previous_root_key_is_another_key() -> None:
    rotating = {**ENV, "COATCHECK_PREVIOUS_ROOT_KEY": OTHER_ROOT}
    assert load({}, rotating).previous_root_key == bytes(range(40, 72))
    assert "COATCHECK_PREVIOUS_ROOT_KEY" in mistakes({**ENV, "COATCHECK_PREVIOUS_ROOT_KEY": ROOT})
    audit = {**ENV, "COATCHECK_AUDIT_ROOT_KEY": OTHER_ROOT, "COATCHECK_PREVIOUS_AUDIT_ROOT_KEY": OTHER_ROOT}
    assert "COATCHECK_PREVIOUS_AUDIT_ROOT_KEY" in mistakes(audit)


def test_a_misspelt_variable_is_a_mistake_and_a_kubernetes_service_link_is_not() -> None:
    assert mistakes({**ENV, "COATCHECK_PRODUCTON": "1"}) == {
        "COATCHECK_PRODUCTON": "is no setting; perhaps COATCHECK_PRODUCTION?"
    }
    links = {
        "COATCHECK_SERVICE_HOST": "10.0.0.1",
        "COATCHECK_PORT_8080_TCP_ADDR": "10.0.0.1",
        "COATCHECK_SERVICE_PORT": "1",
    }
    load({}, {**ENV, **links})


def test_production_refuses_the_embedded_store_and_plain_http() -> None:
    text = "production = true\n" + ISSUER + 'tenant = "abcdefgh234567ab"\nallow_loopback_http = true\n'
    assert mistakes({**ENV, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, text).keys() == {
        "REDIS_URL or [redis] url", "OPENAI_BASE_URL", "issuer",
    }  # fmt: skip
    assert load({}, {**ENV, "COATCHECK_PRODUCTION": "true", "REDIS_URL": "redis://h"}).production


def test_commands_that_do_not_serve_need_no_upstream_key() -> None:
    assert load({}, {"COATCHECK_ROOT_KEY": ROOT}, serves=False).openai.api_key is None
    assert "OPENAI_API_KEY or [openai] api_key_file" in mistakes(
        {"COATCHECK_ROOT_KEY": ROOT, "COATCHECK_PROVIDER": "openai"}
    )


@pytest.mark.parametrize(
    ("url", "topology"),
    [
        ("redis://h:1/2", Topology.SINGLE),
        ("unix:///run/redis.sock", Topology.SINGLE),
        ("rediss://h", Topology.SINGLE),
        ("redis+sentinel://a,b:26380/main", Topology.SENTINEL),
        ("redis+cluster://a,b", Topology.CLUSTER),
    ],
)
def test_every_form_of_redis_is_accepted(url: str, topology: Topology) -> None:
    target = load(
        {}, {**ENV, "REDIS_URL": url, "COATCHECK_REDIS_USERNAME": "u", "COATCHECK_REDIS_PASSWORD": "p"}
    ).redis.target
    assert target is not None
    assert (target.topology, target.username, target.password) == (topology, "u", "p")


def test_what_the_store_takes_has_the_same_defaults_as_the_store() -> None:
    link = load({}, {**ENV, "REDIS_URL": "redis://h", "COATCHECK_REDIS_DURABILITY": "wait:2"}).redis.link()
    assert link is not None
    assert link == LinkSettings(link.target, Durability.parse("wait:2"))
    assert load({}, ENV).redis.link() is None


def test_the_audit_log_and_its_settings_have_the_same_defaults() -> None:
    settings = load({}, ENV)
    limit_s, sweep_s = settings.redis.answer_timeout_s, settings.audit.sweep_interval_s
    assert AuditSettings() == AuditSettings(limit_s, sweep_every_s=sweep_s)


def test_redis_settings_that_contradict_each_other_are_refused() -> None:
    assert mistakes({**ENV, "COATCHECK_REDIS_DURABILITY": "wait:1"}).keys() == {"REDIS_URL or [redis] url"}
    assert mistakes({**ENV, "COATCHECK_REDIS_DURABILITY": "always"}).keys() == {"COATCHECK_REDIS_DURABILITY"}
    assert mistakes({**ENV, "REDIS_URL": "redis://u:p@h", "COATCHECK_REDIS_PASSWORD": "q"}).keys() == {"REDIS_URL"}
    assert mistakes({**ENV, "REDIS_URL": "redis://h", "COATCHECK_REDIS_TLS_CA_FILE": "ca"}).keys() == {"REDIS_URL"}
    assert mistakes({**ENV, "REDIS_URL": "rediss://h", "COATCHECK_REDIS_TLS_CA_FILE": "absent"}).keys() == {"REDIS_URL"}


def test_an_issuer_is_read_with_its_tenants_claims_and_origins() -> None:
    text = ISSUER + (
        'tenants = { acme = "abcdefgh234567ab" }\ntenant_claim = ["https://x.example/org", "id"]\n'
        'roles_claim = "groups"\nleeway_s = 5\ncors_origins = ["https://app.example.com:8443"]\n'
    )
    settings = load({}, ENV, config(text))
    (issuer,) = settings.issuers
    assert issuer.tenants == (("acme", "abcdefgh234567ab"),)
    assert (issuer.tenant_claim, issuer.roles_claim, issuer.leeway_s) == (
        ("https://x.example/org", "id"),
        ("groups",),
        5.0,
    )
    assert settings.origins == {"https://id.example.com": ("https://app.example.com:8443",)}


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("", "tenant"),
        ('tenants = ["abcdefgh234567ab"]', "tenant_claim"),
        ('tenant = "abcdefgh234567ab"\nalgorithms = ["HS256"]', "algorithms"),
        ('tenant = "abcdefgh234567ab"\ncors_origins = ["*"]', "cors_origins"),
        ('tenant = "abcdefgh234567ab"\ncors_origins = ["https://app.example.com/"]', "cors_origins"),
        ('tenant = "abcdefgh234567ab"\ncors_origins = ["https://app.example.com:443"]', "cors_origins"),
        ('tenant = "abcdefgh234567ab"\nmax_age = 1', "max_age"),
        ('tenant = "abcdefgh234567ab"\n' + ISSUER + 'tenant = "abcdefgh234567ab"', "issuer"),
    ],
)
def test_an_issuer_that_could_speak_for_others_is_refused(line: str, key: str) -> None:
    (place,) = mistakes(ENV, ISSUER + line)
    assert place.endswith(f", {key}")


def test_a_proxy_network_that_holds_every_address_is_refused() -> None:
    for networks in ("0.0.0.0/0", "10.0.0.1/8", "::/0", "proxy"):
        assert mistakes({**ENV, "COATCHECK_TRANSPORT_TRUSTED_PROXIES": networks}).keys() == {
            "COATCHECK_TRANSPORT_TRUSTED_PROXIES"
        }
    settings = load({}, {**ENV, "COATCHECK_TRANSPORT_TRUSTED_PROXIES": "10.0.0.0/8, fd00::/8"})
    assert [str(network) for network in settings.transport.trusted_proxies] == ["10.0.0.0/8", "fd00::/8"]


def test_limits_must_be_positive_and_time_outs_in_order() -> None:
    text = (
        "[transport]\nexit_s = 30\nbody_bytes = 0\n[upstream]\nmax_idle = -1\nidle_timeout_s = inf\n"
        "[redis]\nanswer_timeout_s = 5\n"
    )
    assert mistakes(ENV, text).keys() == {
        "settings.toml, [transport] exit_s",
        "settings.toml, [transport] body_bytes",
        "settings.toml, [upstream] max_idle",
        "settings.toml, [upstream] idle_timeout_s",
        "settings.toml, [redis] answer_timeout_s",
    }


def test_a_certificate_goes_with_its_key() -> None:
    Path("cert.pem").write_text("no certificate")
    assert mistakes({**ENV, "COATCHECK_SERVER_TLS_CERTIFICATE_FILE": "cert.pem"}).keys() == {
        "COATCHECK_SERVER_TLS_KEY_FILE or [server] tls_key_file"
    }
    pair = {"COATCHECK_SERVER_TLS_CERTIFICATE_FILE": "cert.pem", "COATCHECK_SERVER_TLS_KEY_FILE": str(key_file(0o600))}
    assert mistakes({**ENV, **pair}).keys() == {"COATCHECK_SERVER_TLS_CERTIFICATE_FILE"}


@pytest.mark.parametrize("text", ["port = ", "[server\n", 'server = "x"', "issuer = 3", "[issuer]\n", "server = 1"])
def test_a_file_of_another_form_is_a_mistake_that_names_it(text: str) -> None:
    (place,) = mistakes(ENV, text)
    assert place.startswith("settings.toml")


def test_a_named_file_must_exist_and_one_in_the_working_folder_is_found() -> None:
    with pytest.raises(SettingsError, match="there is no such file"):
        load({}, ENV, Path("absent.toml"))
    with pytest.raises(SettingsError, match="there is no such file"):
        load({}, {**ENV, "COATCHECK_CONFIG": "absent.toml"})
    Path("coatcheck.toml").write_text("[server]\nport = 7\n")
    assert load({}, ENV).server.port == 7


def test_the_process_environment_is_read_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(name.startswith("COATCHECK_") for name in os.environ)
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    assert load().root_key == bytes(range(32))


def test_the_shipped_file_is_the_list_of_settings() -> None:
    assert SHIPPED.read_text() == example()


def test_the_shipped_file_as_it_is_and_with_every_key_set_gives_the_defaults() -> None:
    text = SHIPPED.read_text()
    everything = re.sub(r"(?m)^#(?=[a-z_]+ = )", "", text.partition("# Further keys")[0])
    assert load({}, ENV, config(text)) == load({}, ENV) == load({}, ENV, config(everything))
    set_there = {(f"{section}." if section else "") + name for section, table in _tables(everything) for name in table}
    assert set_there == {row.dotted + ("_file" if row.secret else "") for row in KEYS}


def test_the_shipped_examples_of_an_issuer_can_be_used() -> None:
    key_file(0o600, "s3cret").rename("client.secret")
    text = SHIPPED.read_text()
    lines = re.findall(r"(?m)^#(\[\[[a-z.]+\]\]|[a-z_]+ = .*)$", text[text.index("# Identity providers") :])
    document = tomllib.loads("\n".join(lines))
    chosen = [line for line in lines if not line.startswith(("tenants", "tenant_claim"))]
    settings = load({}, ENV, config("\n".join(chosen)))
    assert settings.issuers[0].audience == document["issuer"][0]["audience"]
    party = settings.console_issuers[0]
    assert (party.client_id, party.client_secret) == (document["console"]["issuer"][0]["client_id"], "s3cret")
    assert "s3cret" not in repr(settings)


UPSTREAM = """
[openai]
weight = 0
[[openai.upstream]]
name = "second"
base_url = "https://second.example.com/openai/v1"
api_key_file = "second.key"
scope = "shared"
weight = 3
api_key_header = true
"""


def test_further_upstreams_are_read_from_the_file_and_their_keys_from_files_of_their_own() -> None:
    key_file(0o600, "sk-second").rename("second.key")
    settings = load({}, ENV, config(UPSTREAM))
    (second,) = settings.upstreams
    assert (second.name, second.scope, second.weight) == ("second", "shared", 3)
    assert (second.origin.host, second.origin.prefix) == ("second.example.com", b"/openai/v1")
    assert (second.credential.api_key, second.credential.api_key_header) == ("sk-second", True)
    assert "sk-second" not in repr(settings)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('name = "second"', 'name = "openai"', "settings.toml, [[openai.upstream]] number 1, name"),
        ('name = "second"', 'name = "Second!"', "settings.toml, [[openai.upstream]] number 1, name"),
        ("https://second", "http://second", "settings.toml, [[openai.upstream]] number 1, base_url"),
        ("second.key", "no.key", "settings.toml, [[openai.upstream]] number 1, api_key_file"),
        ("weight = 3", "weight = -1", "settings.toml, [[openai.upstream]] number 1, weight"),
        ("weight = 3", "wait = 3", "settings.toml, [[openai.upstream]] number 1, wait"),
        ("weight = 3", "weight = 0", "settings.toml, [openai] weight"),
        ('scope = "shared"', 'organization = "a b"', "settings.toml, [[openai.upstream]] number 1, organization"),
    ],
)
def test_a_wrong_upstream_is_told_by_its_number_and_key(old: str, new: str, place: str) -> None:
    key_file(0o600, "sk-second").rename("second.key")
    with pytest.raises(SettingsError) as caught:
        load({}, ENV, config(UPSTREAM.replace(old, new)))
    assert place in [mistake.place for mistake in caught.value.mistakes]


CONSOLE = """
[console]
enabled = true
[[console.issuer]]
issuer = "https://id.example.com"
client_id = "console"
tenant = "abcdefgh234567ab"
"""


def test_the_console_needs_no_root_key_where_it_has_the_audit_root_key() -> None:
    env = {"COATCHECK_AUDIT_ROOT_KEY": OTHER_ROOT}
    settings = load({}, env, config(CONSOLE), reviews=True)
    assert (settings.root_key, settings.console.idle_s, settings.console.absolute_s) == (b"", 1_800, 28_800)
    for wrong, place in (({}, "COATCHECK_AUDIT_ROOT_KEY or audit_root_key_file"), (env, "console")):
        with pytest.raises(SettingsError) as caught:
            load({}, wrong, config(CONSOLE if not wrong else "[console]"), reviews=True)
        assert [mistake.place for mistake in caught.value.mistakes] == [place]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("[console]", "[console]\nhost = '0.0.0.0'"), "COATCHECK_CONSOLE_URL or [console] url"),
        (("[console]", "[console]\nurl = 'http://audit.example.com'"), "settings.toml, [console] url"),
        (("[console]", "[console]\nurl = 'https://audit.example.com/'"), "settings.toml, [console] url"),
        (("[console]", "[console]\nurl = 'https://audit.example.com:443'"), "settings.toml, [console] url"),
        (("[console]", "[console]\nurl = 'https://Audit.example.com'"), "settings.toml, [console] url"),
        (("[console]", "[console]\nidle_s = 1801"), "settings.toml, [console] idle_s"),
        (("tenant = ", "#"), "settings.toml, [[console.issuer]] number 1, tenant"),
        (("client_id", "audience"), "settings.toml, [[console.issuer]] number 1, client_id"),
        (("tenant = ", "scopes = ['email']\ntenant = "), "settings.toml, [[console.issuer]] number 1, scopes"),
        (("tenant = ", "admin_roles = ['auditor']\ntenant = "), "settings.toml, [[console.issuer]] number 1, admin_roles"),
        (("tenant = ", "client_secret_file = 'x'\ntenant = "), "settings.toml, [[console.issuer]] number 1, client_secret_file"),
    ],
)  # fmt: skip
def test_a_console_that_auditors_could_not_use_safely_is_refused(change: tuple[str, str], place: str) -> None:
    assert place in mistakes(text=CONSOLE.replace(*change, 1))


def test_in_production_the_console_is_reached_by_https() -> None:
    text = "production = true\n[redis]\nurl='redis://127.0.0.1/0'\n"
    assert "COATCHECK_CONSOLE_URL or [console] url" in mistakes(text=text + CONSOLE)
    for url, right in (("https://audit.example.com", True), ("http://127.0.0.1:8090", False)):
        given = text + CONSOLE.replace("[console]", f"[console]\nurl = '{url}'")
        assert right or "settings.toml, [console] url" in mistakes(text=given)
        assert not right or load({}, ENV, config(given)).console.url == url


def test_every_field_of_every_section_is_a_documented_setting() -> None:
    documented = {(row.section, row.name) for row in KEYS}
    composed = {("", name) for name in (*SECTIONS, "console_issuers", "issuers", "origins", "upstreams")} | {
        ("redis", "target")
    }
    assert {(section, one.name) for section, cls in SECTIONS.items() for one in fields(cls)} - composed == documented
    for row in KEYS:
        assert row.place in describe()
        assert row.env in describe()
    assert len({row.env for row in KEYS}) == len(KEYS)
    assert {one.name for one in fields(Settings)} >= SECTIONS.keys() - {""}


def _tables(text: str) -> list[tuple[str, dict[str, object]]]:
    document = tomllib.loads(text)
    top = {name: value for name, value in document.items() if not isinstance(value, dict)}
    return [("", top), *((name, value) for name, value in document.items() if isinstance(value, dict))]


def test_a_callers_defaults_are_weaker_than_all_that_people_write() -> None:
    defaults = {"server.port": 0, "data": Path("made"), "root_key": OTHER_ROOT, "metrics.port": 1}
    settings = load({}, ENV | {"COATCHECK_DATA": "given"}, config("[metrics]\nport = 2"), defaults=defaults)
    assert (settings.server.port, settings.data, settings.metrics.port) == (0, Path("given"), 2)
    assert settings.root_key == bytes(range(32))
    assert load({}, {"OPENAI_API_KEY": "sk-x"}, defaults=defaults).root_key == bytes(range(40, 72))


def test_no_colour_is_wanted_where_the_user_or_the_terminal_says_so() -> None:
    assert wants_colours({"TERM": "xterm"})
    assert not wants_colours({"TERM": "xterm", "NO_COLOR": "1"})
    assert not wants_colours({"TERM": "dumb"})
