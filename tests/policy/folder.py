"""A folder of policies to break, and the people and objects that the tests decide about."""

from __future__ import annotations

import shutil
from pathlib import Path

from gateway.names import Kind, Owner, Principal, PrincipalKind, TenantId, Visibility
from gateway.policy.actions import actions_of
from gateway.policy.decision import Resource
from gateway.policy.source import shipped_folder
from gateway.surfaces.table import EVERY

ACTIONS = actions_of(EVERY)
ACME, BOLT = TenantId("aaaaaaaaaaaaaaaa"), TenantId("bbbbbbbbbbbbbbbb")
ALICE_OWNER, CAROL_OWNER = Owner("local", "alice"), Owner("local", "carol")
ALICE = Principal(ACME, ALICE_OWNER, PrincipalKind.USER, "jwt")
HERS = Resource(Kind.RESPONSE, ALICE_OWNER, Visibility.PRIVATE, ACME)


def copied(folder: Path) -> Path:
    """The shipped policies, free to change."""
    return Path(shutil.copytree(shipped_folder(), folder / "policies"))


def edited(folder: Path, file: str, old: str, new: str) -> Path:
    """The shipped policies with one text replaced, which must be there."""
    path = copied(folder) / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path.parent
