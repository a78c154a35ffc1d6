"""The table of ID kinds, and the one closed list of prefixes that the upstream service uses.

Prefixes and retention as seen in the service's traffic and its reference
(https://platform.openai.com/docs/api-reference, https://platform.openai.com/docs/guides/your-data).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.names import Kind

_HOUR: Final = 3_600
_DAY: Final = 24 * _HOUR
_MONTH: Final = 30 * _DAY


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind. `prefixes`: as the service writes them, the first is canonical. `code`: its byte in records, never
    reused. `roots`: the kinds it may be a child of; empty for a root. `lifetime_s`: seconds that a record outlives the
    last sight of its object; None: until deletion. A child's record lives as its root's does. `served`: its surface
    exists."""

    code: int
    prefixes: tuple[str, ...]
    lifetime_s: int | None = None
    roots: frozenset[Kind] = frozenset()
    served: bool = False

    @property
    def canonical(self) -> str:
        return self.prefixes[0]


_ITEM_PREFIXES: Final = (
    "msg_", "rs_", "fc_", "fco_", "ctc_", "ctco_", "ws_", "fs_", "ci_", "ig_", "mcp_", "mcpl_", "mcpr_", "mcpa_",
    "cu_", "cuo_", "lsh_", "lsho_", "sh_", "sho_", "apc_", "apco_", "tsc_", "tso_", "cmp_", "item_",
)  # fmt: skip

KINDS: Final[Mapping[Kind, KindRow]] = MappingProxyType(
    {
        Kind.RESPONSE: KindRow(1, ("resp_",), _MONTH, served=True),
        Kind.CONVERSATION: KindRow(2, ("conv_",), served=True),
        Kind.ITEM: KindRow(3, _ITEM_PREFIXES, _MONTH, frozenset({Kind.RESPONSE, Kind.CONVERSATION}), served=True),
        Kind.FILE: KindRow(4, ("file-",)),
        Kind.UPLOAD: KindRow(5, ("upload_",), _DAY),
        Kind.UPLOAD_PART: KindRow(6, ("part_",), _DAY, frozenset({Kind.UPLOAD})),
        Kind.VECTOR_STORE: KindRow(7, ("vs_",)),
        Kind.VECTOR_STORE_BATCH: KindRow(8, ("vsfb_", "vsfb_ibj_"), None, frozenset({Kind.VECTOR_STORE})),
        Kind.BATCH: KindRow(9, ("batch_",)),
        Kind.CONTAINER: KindRow(10, ("cntr_",), _MONTH),
        Kind.CONTAINER_FILE: KindRow(11, ("cfile_",), _MONTH, frozenset({Kind.CONTAINER})),
        Kind.CHAT_COMPLETION: KindRow(12, ("chatcmpl-",), _MONTH, served=True),
        Kind.SKILL: KindRow(13, ("skill_",)),
        Kind.PROMPT: KindRow(14, ("pmpt_",)),
        Kind.TUNNEL: KindRow(15, ("tunnel_",)),
        Kind.VOICE: KindRow(16, ("voice_",)),
        Kind.FINE_TUNING_JOB: KindRow(17, ("ftjob-",)),
        Kind.VIDEO: KindRow(18, ("video_",), _MONTH),
        # The service names them by the completion's ID and a number; a prefix tells the opaque ones from their root's.
        Kind.CHAT_MESSAGE: KindRow(19, ("chatmsg_",), _MONTH, frozenset({Kind.CHAT_COMPLETION}), served=True),
        Kind.CHAT_AUDIO: KindRow(20, ("audio_",), _HOUR, served=True),
    }
)

OTHER_PREFIXES: Final = (
    "org-", "proj_", "user-", "sk-", "sk-proj-", "sk-svcacct-", "sk-admin-", "req_", "ek_", "whsec_", "wh_", "we_",
    "evt_", "event_", "sess_", "live_", "rtc_", "rtc_u1_", "batch_req_", "cu_sc_", "cksess_", "cthr_", "cthi_", "wf_",
    "cmpl-", "modr-", "img-", "fp_", "ftckpt_", "ftevent-", "cp_", "eval_", "evalrun_", "outputitem_", "skillver_",
    "char_", "cons_", "asst_", "thread_", "run_", "step_", "agent_",
)  # fmt: skip
"""Accounts, secrets and objects that no kind covers. They are never minted, so outbound they can only become inert.

Not in the list: `call_`, `stream_id` values and `connector_…`, tokens that address nothing and pass as they are.
"""

PREFIXES: Final = tuple(prefix for row in KINDS.values() for prefix in row.prefixes) + OTHER_PREFIXES

KIND_OF_CODE: Final[Mapping[int, Kind]] = MappingProxyType({row.code: kind for kind, row in KINDS.items()})

_KIND_OF_PREFIX: Final = {prefix: kind for kind, row in KINDS.items() for prefix in row.prefixes}


def kind_of_prefix(prefix: str) -> Kind | None:
    """The kind that the service writes with this very prefix (with its `_` or `-`), or None."""
    return _KIND_OF_PREFIX.get(prefix)


def lifetime_s(kind: Kind, root: Kind | None = None) -> int | None:
    """Seconds that a record of `kind` outlives the last sight of its object, as its `root`'s does if it is a child."""
    return KINDS[root or kind].lifetime_s
