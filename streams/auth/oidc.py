"""The name under which the ledger knows a provider's subject."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import jwt

from accountant.records.names import LONGEST_NAME, is_name
from streams.auth.principal import Principal
from streams.auth.provider_keys import Away, ProviderKeys
from streams.clock import SystemClock
from streams.http.refusal import Refusal
from streams.logs import get_logger

if TYPE_CHECKING:
    from jwt.types import Options


MARK: Final = "b32."
"""What the names of escaped subjects begin with: base32 of the subject's UTF-8 follows."""

_NO_NAME: Final = Refusal(401, "subject is no name")


def name_of(subject: object) -> str | Refusal:
    """Return the name of a subject, which no other subject has.

    A subject that is a name stays as it is. All others are escaped, and so is a name that begins
    with the mark: it would be the name of another subject. A subject is never hashed or cut,
    so that whoever reads the log can tell whose name it is.
    """
    if not isinstance(subject, str) or not subject:
        return _NO_NAME
    if is_name(subject) and not subject.startswith(MARK):
        return subject
    try:
        encoded = base64.b32encode(subject.encode())
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return _NO_NAME
    name = MARK + encoded.decode().rstrip("=").lower()
    if len(name) > LONGEST_NAME:
        return Refusal(
            401,
            "subject too long",
            f"the token's subject has {len(subject)} characters, and would be a name of "
            f"{len(name)}: names have at most {LONGEST_NAME}. Have the provider give a shorter "
            "subject, or name another field by ACCOUNTANT_OIDC_SUBJECT_FIELD",
            "subject",
        )
    return name


_log = get_logger(__name__)
MAX_REMEMBERED: Final = 10_000
"""Tokens whose signature need not be checked again; the one longest unused is forgotten first."""

_EVERYTHING: Final = {
    f"verify_{claim}": True for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")
}
_WHY: Final = {
    jwt.ExpiredSignatureError: "expired token",
    jwt.ImmatureSignatureError: "token of later",
    jwt.InvalidAudienceError: "other audience",
    jwt.InvalidIssuerError: "other issuer",
    jwt.InvalidAlgorithmError: "algorithm not allowed",
    jwt.MissingRequiredClaimError: "claim missing",
    jwt.InvalidSignatureError: "wrong signature",
}


_TYPES: Final = frozenset({"jwt", "at+jwt"})
_NOT_OF_ACCESS: Final = frozenset({"cnf", "at_hash", "c_hash", "events"})
_OTHER_KINDS: Final = frozenset({"ID", "Refresh", "Logout"})  # Keycloak's


class Accepts(NamedTuple):
    """What a token must be to hold.

    Attributes:
        subject_field: the claim that names the person.
        skew: seconds by which the provider's clock may differ.
        not_prefix: what no name of the provider's may begin with, in capitals or not; empty for
            nothing.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    subject_field: str
    skew: float
    not_prefix: str


class _Held(NamedTuple):
    principal: Principal
    until: float
    generation: int


class Provider:
    """Tells whose token a text is, by the provider's keys.

    Args:
        principal: what a name is to this door.
    """

    def __init__(
        self, accepts: Accepts, keys: ProviderKeys, principal: Callable[[str], Principal]
    ) -> None:
        self._accepts = accepts
        self._keys = keys
        self._principal = principal
        self._held: OrderedDict[bytes, _Held] = OrderedDict()

    async def find(self, token: str) -> Principal | Refusal:
        """Return whose token a text is."""
        digest = hashlib.sha256(token.encode()).digest()
        held = self._held.get(digest)
        # A token that held goes on only with the keys of then, as long as those are believed.
        if held is not None and self._keys.are_known():
            if held.generation == self._keys.generation and SystemClock().now() / 1000 < held.until:
                self._held.move_to_end(digest)
                return held.principal
            del self._held[digest]
        try:
            found = await self._verified(token)
        except Away:
            return Refusal(503, "provider away")
        except jwt.PyJWTError as error:
            return Refusal(401, _WHY.get(type(error), "malformed token"))
        except Exception as error:
            # Whatever a token can do to a parser, it lets nobody in.
            _log.error("token_not_understood", error=type(error).__name__)
            return Refusal(401, "malformed token")
        if isinstance(found, Refusal):
            return found
        self._held[digest] = found
        if len(self._held) > MAX_REMEMBERED:
            self._held.popitem(last=False)
        return found.principal

    async def _verified(self, token: str) -> _Held | Refusal:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in _TYPES:
            return Refusal(401, "no access token")
        if algorithm not in self._accepts.algorithms:
            raise jwt.InvalidAlgorithmError
        # First what needs no key: a token that has expired asks the provider for nothing.
        self._claims(token, None)
        key = await self._keys.find(kid, algorithm)
        if key is None:
            return Refusal(401, "unknown key")
        generation = self._keys.generation
        claims = self._claims(token, key)
        # A token that is bound to a key is worth nothing without its proof, which no door checks.
        if not _NOT_OF_ACCESS.isdisjoint(claims) or claims.get("typ") in _OTHER_KINDS:
            return Refusal(401, "no access token")
        name = name_of(claims.get(self._accepts.subject_field))
        if isinstance(name, Refusal):
            return name
        prefix = self._accepts.not_prefix
        # In any case of letters: people would take `Local:ana` for `local:ana`.
        if prefix and name.lower().startswith(prefix.lower()):
            return Refusal(401, "subject with the prefix of static tokens")
        return _Held(self._principal(name), int(claims["exp"]) + self._accepts.skew, generation)

    def _claims(self, token: str, key: jwt.PyJWK | None) -> dict[str, Any]:
        """Return what a token says; without a key it is not believed.

        Raises: jwt.PyJWTError: it does not hold.
        """
        accepts = self._accepts
        options: dict[str, Any] = {**_EVERYTHING, "require": ["exp", "iss", "aud"]}
        options["verify_signature"] = key is not None
        return jwt.decode(
            token,
            key="" if key is None else key,
            algorithms=[*accepts.algorithms] if key is None else [key.algorithm_name],
            options=cast("Options", options),
            audience=accepts.audience,
            issuer=accepts.issuer,
            leeway=accepts.skew,
        )
