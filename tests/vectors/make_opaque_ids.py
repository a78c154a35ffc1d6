"""Writes opaque_ids.json: `python -m tests.vectors.make_opaque_ids > tests/vectors/opaque_ids.json`.

The file lets another implementation check its own: keys are given as they stand behind the HMACs, so it says nothing
about how they are wrapped or derived. Everything is fixed, so that a run changes nothing.
"""

from __future__ import annotations

import json
import random
import uuid

from gateway.ids.encoding import ALPHABET
from gateway.ids.form import DeploymentForm, TenantForm
from gateway.ids.keys import IdentityKeys
from gateway.ids.kinds import KINDS
from gateway.names import Kind

DEPLOYMENT = "00112233445566aa"
COUNT = 200
INERT_EVERY = 5


def main() -> None:
    chance = random.Random(2026)
    tag_keys = {version: chance.randbytes(32) for version in (1, 2, 15)}
    identity = {epoch: IdentityKeys(*(chance.randbytes(32) for _ in range(3))) for epoch in (1, 2, 15)}
    projects = ["proj_default", "", "Projekt Ä"]
    vectors = []
    for number in range(COUNT):
        kind = chance.choice(list(Kind))
        raw = _raw(chance, kind)
        project, epoch, version = chance.choice(projects), chance.choice(list(identity)), chance.choice(list(tag_keys))
        form = TenantForm(DeploymentForm(DEPLOYMENT, tag_keys, version), identity, epoch)
        inert = number % INERT_EVERY == 0
        opaque = form.inert(kind, raw) if inert else form.opaque(kind, raw, project)
        vectors.append(
            {
                "kind": kind.value,
                "raw": raw,
                "project": project,
                "epoch": epoch,
                "tag_version": version,
                "inert": inert,
                "opaque": opaque.text,
            }
        )
    keys = {
        "h_domain": "coatcheck id h 1",
        "tag_domain": "coatcheck id tag 1",
        "deployment": DEPLOYMENT,
        "tag_keys": {str(version): key.hex() for version, key in tag_keys.items()},
        "prf_keys": {str(epoch): keys.prf.hex() for epoch, keys in identity.items()},
        "inert_keys": {str(epoch): keys.inert.hex() for epoch, keys in identity.items()},
    }
    print(json.dumps({**keys, "vectors": vectors}, indent=1, ensure_ascii=True))


def _raw(chance: random.Random, kind: Kind) -> str:
    """A raw ID in one of the shapes that servers use, with the kind's prefix, none, or one that nobody knows."""
    name = uuid.UUID(bytes=chance.randbytes(16), version=4)
    tail = chance.choice(
        [
            chance.randbytes(25).hex(),
            chance.randbytes(24).hex(),
            chance.randbytes(16).hex(),
            str(name),
            name.hex,
            "".join(chance.choices(ALPHABET, k=chance.randint(21, 29))),
        ]
    )
    prefix = chance.choice([*KINDS[kind].prefixes] * 2 + ["", "xq_", "quiteunknown-"])
    return prefix + tail


if __name__ == "__main__":
    main()
