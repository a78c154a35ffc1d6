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
    reused. `roots`: the kinds it may be a child of, the preferred one first; empty for a root. `lifetime_s`: seconds that
    a record outlives the last sight of its object; None: until deletion. A child's record lives as its root's does.
    `served`: its surface exists. `listed`: an owner's objects of it are kept in a list."""

    code: int
    prefixes: tuple[str, ...]
    lifetime_s: int | None = None
    roots: tuple[Kind, ...] = ()
    served: bool = False
    listed: bool = False

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
        Kind.ITEM: KindRow(3, _ITEM_PREFIXES, _MONTH, (Kind.CONVERSATION, Kind.RESPONSE), served=True),
        Kind.FILE: KindRow(4, ("file-",), served=True, listed=True),
        Kind.UPLOAD: KindRow(5, ("upload_",), _DAY, served=True),
        Kind.UPLOAD_PART: KindRow(6, ("part_",), _DAY, (Kind.UPLOAD,), served=True),
        Kind.VECTOR_STORE: KindRow(7, ("vs_",), served=True, listed=True),
        Kind.VECTOR_STORE_BATCH: KindRow(8, ("vsfb_", "vsfb_ibj_"), None, (Kind.VECTOR_STORE,), served=True),
        Kind.BATCH: KindRow(9, ("batch_",), served=True, listed=True),
        Kind.CONTAINER: KindRow(10, ("cntr_",), _MONTH, served=True, listed=True),
        Kind.CONTAINER_FILE: KindRow(11, ("cfile_",), _MONTH, (Kind.CONTAINER,), served=True),
        Kind.CHAT_COMPLETION: KindRow(12, ("chatcmpl-",), _MONTH, served=True, listed=True),
        Kind.SKILL: KindRow(13, ("skill_",), served=True, listed=True),
        Kind.PROMPT: KindRow(14, ("pmpt_",)),
        Kind.TUNNEL: KindRow(15, ("tunnel_",)),
        Kind.VOICE: KindRow(16, ("voice_",)),
        Kind.FINE_TUNING_JOB: KindRow(17, ("ftjob-",), served=True, listed=True),
        Kind.VIDEO: KindRow(18, ("video_",), _MONTH),
        # The service names them by the completion's ID and a number; a prefix tells the opaque ones from their root's.
        Kind.CHAT_MESSAGE: KindRow(19, ("chatmsg_",), _MONTH, (Kind.CHAT_COMPLETION,), served=True),
        Kind.CHAT_AUDIO: KindRow(20, ("audio_",), _HOUR, served=True),
        Kind.SKILL_VERSION: KindRow(21, ("skillver_",), None, (Kind.SKILL,), served=True),
        Kind.FINE_TUNING_EVENT: KindRow(22, ("ftevent-",), None, (Kind.FINE_TUNING_JOB,), served=True),
        Kind.CHECKPOINT: KindRow(23, ("ftckpt_",), None, (Kind.FINE_TUNING_JOB,), served=True),
        # Its ID is its name, which says base model, organization and suffix: `ft:gpt-4o-mini:acme:coats:8k01tfYd`.
        Kind.FINE_TUNED_MODEL: KindRow(24, ("ft:",), served=True, listed=True),
        # A telephone call, which the operator brings under an owner; it ends as a session does.
        Kind.CALL: KindRow(25, ("rtc_", "rtc_u1_"), _HOUR, served=True),
    }
)

OTHER_PREFIXES: Final = (
    "org-", "proj_", "user-", "sk-", "sk-proj-", "sk-svcacct-", "sk-admin-", "req_", "ek_", "whsec_", "wh_", "we_",
    "evt_", "event_", "sess_", "live_", "batch_req_", "cu_sc_", "cksess_", "cthr_", "cthi_", "wf_",
    "cmpl-", "modr-", "img-", "fp_", "ft-event-", "cp_", "eval_", "evalrun_", "outputitem_", "char_", "cons_",
    "asst_", "thread_", "run_", "step_", "agent_",
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
