"""What a request names, and whether it may: every ID is found, and once the store has answered, opened or refused.

A line of a batch is a request too, so these stages stand apart from the one that HTTP carries (`request.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from gateway.authz import Deny, Policies, decide, owns
from gateway.errors import Problem, Reason
from gateway.ids.kinds import KINDS
from gateway.ids.shape import TUNED
from gateway.mapping import Mapper, Opened
from gateway.names import Kind, Principal
from gateway.pipeline import forward
from gateway.pipeline.exchange import Exchange
from gateway.pipeline.paging import asked
from gateway.rewrite.inbound import collect
from gateway.rewrite.named import Quotation, Reference, put, refusal
from gateway.rewrite.walker import Verify
from gateway.stores.contract import Found, Lookup
from gateway.surfaces.batches import ENDPOINTS
from gateway.surfaces.spec import Role

_EVEN_DELETED: Final = (Role.MADE, Role.CURSOR)

Wanted = dict[tuple[Kind, bytes], Lookup]
"""Look-ups by kind and h: one for each object, however often it is named."""


def gather(exchange: Exchange, verify: Verify | None = None) -> None:
    """Every ID that the request names. What can't be an ID of ours ends here, without a look-up. `verify`: what an ID states,
    where more is known than what the deployment wrote. Raises Problem."""
    route, body = exchange.known_route, exchange.body
    if exchange.head.query:
        exchange.query = _query(exchange.head.query)
    verify, is_form = verify or exchange.known_mapper.verify, exchange.form is not None
    exchange.collected = collect(route, exchange.segments, exchange.query, body, verify, form=is_form)
    exchange.model = forward.check_model(exchange.segments, body, exchange.collected)
    if route.lists:
        exchange.asked = asked(route.lists, exchange.query, exchange.collected)
    for reference in exchange.collected.references:
        reason = refusal(reference)
        if reason is None:
            continue
        if reference.required:
            raise reference.problem(reason)
        reference.parsed = None


def wanted(exchange: Exchange) -> Wanted:
    """The records that the request names."""
    named: list[Reference | Quotation] = [*exchange.collected.references, *exchange.collected.quotations]
    return {(one.kind, one.parsed.h): Lookup(one.kind, one.parsed.h) for one in named if one.parsed is not None}


def open_found(mapper: Mapper, wanted: Wanted, found: Iterable[Found]) -> dict[tuple[Kind, bytes], Opened | None]:
    """What the store gave for each of `wanted`, in their order, as records of the tenant."""
    return {key: mapper.to_raw(lookup, one) for (key, lookup), one in zip(wanted.items(), found, strict=True)}


def decide_on(exchange: Exchange, principal: Principal, policies: Policies) -> None:
    """Ownership of everything named, then the policies. Raw IDs are in place afterwards. Raises Problem."""
    _open_references(exchange, principal)
    _stand_in(exchange)
    _open_quotations(exchange, principal)
    _check_family(exchange)
    if exchange.known_route.runs:
        _check_lines(exchange, principal)
    put(exchange.collected)
    _authorize(exchange, principal, policies)


def _open_references(exchange: Exchange, principal: Principal) -> None:
    """What does not open refuses the request, or is dropped where it may be."""
    collected = exchange.collected
    inline = {one.text for one in collected.references if one.spec.role is Role.OWN and not one.required}
    for reference in collected.references:
        opened = exchange.record(reference)
        reason = _closed(exchange, reference, opened, principal)
        if reason is None and opened:
            reference.raw = opened.raw.text
            exchange.opened[reference.text] = opened
        elif reference.spec.correlates and reference.parsed and reference.text in inline:
            exchange.correlated.add(reference.text)
        elif reference.required:
            raise reference.problem(reason or Reason.NOT_RECORDED)
        else:
            collected.dropped += 1


def _stand_in(exchange: Exchange) -> None:
    """What goes upstream though it did not open."""
    for reference in exchange.collected.references:
        if reference.raw:
            continue
        # An approval and the request that it answers, both in this very input: they only have to name each other.
        if reference.text in exchange.correlated:
            reference.raw = reference.text
        elif reference.spec.nowhere:
            reference.raw = exchange.stand_in_for(reference)


def _open_quotations(exchange: Exchange, principal: Principal) -> None:
    form = exchange.known_mapper.form
    for quotation in exchange.collected.quotations:
        opened = exchange.record(quotation)
        if opened and form.is_current(quotation.parsed) and owns(principal, opened.root):
            quotation.raw = opened.raw.text
            exchange.opened.setdefault(quotation.text, opened)


def _authorize(exchange: Exchange, principal: Principal, policies: Policies) -> None:
    route = exchange.known_route
    tuned = exchange.at("model") if exchange.model.startswith(TUNED) else None
    model = forward.base_of(exchange.model, tuned.raw.text if tuned else "")
    circumstances = forward.circumstances(route, model, exchange.body, exchange.head.client)
    decision = decide(policies, principal, route.action, exchange.resources, circumstances)
    exchange.policy = decision.policy
    if isinstance(decision, Deny):
        raise Problem(decision.reason)


def _takes_lines(exchange: Exchange, reference: Reference) -> bool:
    """Whether a batch's file may be named here. Raw IDs stand in it, so it may be run, told of and read back, where they are
    translated, and nothing else: a model would spell them."""
    return reference.container is None or bool(exchange.known_route.runs)


def _check_lines(exchange: Exchange, principal: Principal) -> None:
    """What a file holds is carried out with its owner's rights, as what it was checked for: by nobody else, as nothing else."""
    file, said = exchange.at(exchange.known_route.runs), exchange.body
    endpoint = said.get("endpoint") if isinstance(said, dict) else None
    if file is None or file.root.owner != principal.owner or file.root.lines != endpoint or endpoint not in ENDPOINTS:
        raise Problem(
            Reason.BAD_PARAMETER,
            "the file must be one that you uploaded with the purpose 'batch', with this endpoint as the url of its lines",
            param=exchange.known_route.runs,
        )


def check_status(*, tenant_active: bool, credential_live: bool) -> None:
    """Raises Problem for a tenant or a credential that is no more."""
    if not tenant_active:
        raise Problem(Reason.TENANT_INACTIVE)
    if not credential_live:
        raise Problem(Reason.CREDENTIAL_REVOKED)


def _closed(exchange: Exchange, reference: Reference, opened: Opened | None, principal: Principal) -> Reason | None:
    """Why a reference whose tag verified does not open for the principal; None where it does."""
    form = exchange.known_mapper.form
    if reference.parsed is None:
        return Reason.NOT_AN_OPAQUE_ID
    if opened is None or not form.is_current(reference.parsed):
        return Reason.NOT_RECORDED if form.is_inert(reference.parsed) else Reason.FOREIGN_OR_RETIRED
    if not owns(principal, opened.root):
        return Reason.NOT_OWNED
    if reference.spec.role not in _EVEN_DELETED and (opened.deleted or not KINDS[reference.kind].served):
        return Reason.NOT_RECORDED
    if opened.root.lines and not _takes_lines(exchange, reference):
        return Reason.NOT_RECORDED
    return None


def _query(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=64)
    except ValueError:
        raise Problem(Reason.BAD_PARAMETER, "the query has more than 64 parameters") from None


def _check_family(exchange: Exchange) -> None:
    """A path that names a child and no root of it names nothing. Two roots stand side by side (a file in a vector store):
    whether they belong together the service knows."""
    names = exchange.known_route.path_ids
    if len(names) < 2:
        return
    found = {name: opened for name in names if (opened := exchange.at(name))}
    roots = {one.h for one in found.values() if one.is_root}
    for name, one in found.items():
        if not one.is_root and one.root_h not in roots:
            raise next(ref for ref in exchange.collected.references if ref.param == name).problem(Reason.NOT_RECORDED)
