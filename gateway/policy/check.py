"""Runs the policies' cases: beside each `<subject>.cedar` a `<subject>.cases.toml` of requests and their decisions.

    [[case]]
    name = "a model of the list is allowed"
    action = "responses.create"
    context = { model = "gpt-5", tools = ["function"] }
    expect = "allow"
    policy = "access"                                  # the IDs that decide, joined by commas

A case speaks of Alice, a user of tenant `aaaaaaaaaaaaaaaa`, and of no object; `principal` and `resource` say otherwise. Every
policy needs a case that it decides, so a policy that never applies is found.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

from gateway.errors import Reason
from gateway.names import Kind, Owner, Principal, PrincipalKind, TenantId, Visibility
from gateway.policy.decision import Allow, Circumstances, Decision, Deny, Resource
from gateway.policy.engine import PolicySet
from gateway.policy.source import SUFFIX, PolicyError

CASES_SUFFIX: Final = ".cases.toml"
_TENANT: Final = "aaaaaaaaaaaaaaaa"
_NEEDED: Final = ("name", "action", "expect")
_KEYS: Final = frozenset({*_NEEDED, "principal", "resource", "context", "policy"})
_CONTEXT: Final = {
    one.name: tuple if one.name == "tools" else get_type_hints(Circumstances)[one.name] for one in fields(Circumstances)
}


@dataclass(frozen=True, slots=True)
class Case:
    file: str
    name: str
    principal: Principal
    action: str
    resource: Resource | None
    circumstances: Circumstances
    expected: Decision


def check(folder: Path, actions: Mapping[str, tuple[str, ...]], tell: Callable[[str], object]) -> int:
    """Tells each case's result, a line each, and a sum. 0: all as expected; 1: some not; 2: the policies, or the cases,
    cannot be used."""
    try:
        policies = PolicySet.load(folder, actions)
        cases = list(read_cases(folder, actions))
    except PolicyError as error:
        tell(str(error))
        return 2
    failed, decisive = 0, set[str]()
    for case in cases:
        decision = policies.decide(case.principal, case.action, case.resource, case.circumstances)
        decisive.update(decision.policy.split(","))
        if decision == case.expected:
            tell(f"ok    {case.file}: {case.name}")
        else:
            failed += 1
            tell(f"FAIL  {case.file}: {case.name}: expected {_shown(case.expected)}, got {_shown(decision)}")
    for policy in policies.ids:
        if policy not in decisive:
            failed += 1
            tell(f"FAIL  {policy}: no case is decided by this policy")
    tell(f"{len(cases)} cases, {len(policies.ids)} policies, {failed} failed")
    return 1 if failed else 0


def read_cases(folder: Path, actions: Mapping[str, tuple[str, ...]]) -> Iterator[Case]:
    """Every case in the folder. Raises PolicyError for a file that is no such list, or a policy file without one."""
    for policy in sorted(folder.glob(f"*{SUFFIX}")):
        path = policy.with_suffix(CASES_SUFFIX)
        try:
            document = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise PolicyError([f"{path.name}: is missing; it holds the cases of {policy.name}"]) from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise PolicyError([f"{path.name}: cannot be read: {error}"]) from None
        tables = document.get("case")
        if set(document) != {"case"} or not isinstance(tables, list):
            raise PolicyError([f"{path.name}: must hold [[case]] tables, and nothing else"])
        for number, table in enumerate(tables, start=1):
            try:
                yield _case(path.name, table, actions)
            except (TypeError, ValueError) as error:
                raise PolicyError([f"{path.name}: case {number}: {error}"]) from None


def _case(file: str, table: Any, actions: Mapping[str, tuple[str, ...]]) -> Case:
    if not isinstance(table, dict):
        raise TypeError("must be a table")
    if unknown := table.keys() - _KEYS:
        raise ValueError(f"unknown keys {', '.join(sorted(unknown))}")
    if missing := [name for name in _NEEDED if name not in table]:
        raise ValueError(f"has no {', '.join(missing)}")
    if table["action"] not in actions:
        raise ValueError(f"no route has the action {table['action']}")
    policy = table.get("policy", "")
    outcomes: dict[str, Decision] = {"allow": Allow(policy), "deny": Deny(Reason.POLICY_DENIED, policy)}
    if table["expect"] not in outcomes:
        raise ValueError(f"expect must be {' or '.join(outcomes)}")
    resource = _resource(**table["resource"]) if "resource" in table else None
    circumstances = _circumstances(table.get("context", {}))
    return Case(
        file,
        table["name"],
        _principal(**table.get("principal", {})),
        table["action"],
        resource,
        circumstances,
        outcomes[table["expect"]],
    )


def _principal(
    tenant: str = _TENANT,
    owner: str = "local#alice",
    kind: str = "user",
    auth: str = "jwt",
    roles: Sequence[str] = (),
    scopes: Sequence[str] = (),
) -> Principal:
    if isinstance(roles, str) or isinstance(scopes, str):
        raise TypeError("roles and scopes must be lists")
    return Principal(
        TenantId(tenant), Owner.parse(owner), PrincipalKind(kind), auth, frozenset(roles), frozenset(scopes)
    )


def _resource(
    kind: str = "response", owner: str = "local#alice", visibility: str = "private", tenant: str = _TENANT
) -> Resource:
    return Resource(Kind(kind), Owner.parse(owner), Visibility(visibility), TenantId(tenant))


def _circumstances(given: Mapping[str, Any]) -> Circumstances:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    for name, value in values.items():
        if name in _CONTEXT and type(value) is not _CONTEXT[name]:
            raise TypeError(f"context.{name} must be {_CONTEXT[name].__name__}")
    return Circumstances(**values)


def _shown(decision: Decision) -> str:
    by = f" by {decision.policy}" if decision.policy else ""
    return ("allow" if isinstance(decision, Allow) else "deny") + by
