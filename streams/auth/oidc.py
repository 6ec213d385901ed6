"""Tokens of an OpenID provider: verification, and the ledger's name for a subject."""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import jwt

from accountant.records.names import LONGEST_NAME, is_name
from streams.auth.principal import Principal
from streams.auth.provider_keys import ProviderKeys, ProviderUnavailable
from streams.clock import SystemClock
from streams.http.refusal import Refusal
from streams.logs import get_logger

if TYPE_CHECKING:
    from jwt.types import Options


MARK: Final = "b32."
"""Prefix of an escaped subject's name: base32 of the subject's UTF-8 follows."""

_NO_NAME: Final = Refusal(401, "subject is no name")


def name_of(subject: object) -> str | Refusal:
    """Return a unique ledger name for a provider's subject.

    A subject that is a valid name stays unchanged. All others are escaped, and so is a name that
    begins with `MARK`, which could collide with an escaped one. A subject is never hashed or cut,
    so that a reader of the log can identify the person.
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
            f"the token's subject has {len(subject)} characters, which makes a name of "
            f"{len(name)}; names have at most {LONGEST_NAME}. Have the provider issue a shorter "
            "subject, or set ACCOUNTANT_OIDC_SUBJECT_FIELD to another field",
            "subject",
        )
    return name


_log = get_logger(__name__)
MAX_REMEMBERED: Final = 10_000
"""Tokens in the cache of verified signatures; the least recently used one is evicted."""

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
_NOT_ACCESS_TOKENS: Final = frozenset({"cnf", "at_hash", "c_hash", "events"})
_OTHER_KINDS: Final = frozenset({"ID", "Refresh", "Logout"})  # Keycloak's


class TokenRequirements(NamedTuple):
    """What a valid token must contain.

    Attributes:
        subject_field: the claim that names the person.
        skew: seconds by which the provider's clock may differ.
        not_prefix: a prefix reserved for static tokens, in any letter case; empty for none.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    subject_field: str
    skew: float
    not_prefix: str


class _Verified(NamedTuple):
    principal: Principal
    until: float
    generation: int


class Provider:
    """Verifies tokens of an OpenID provider, by the provider's keys.

    Args:
        principal: makes the principal of a name.
    """

    def __init__(
        self, accepts: TokenRequirements, keys: ProviderKeys, principal: Callable[[str], Principal]
    ) -> None:
        self._rules = accepts
        self._keys = keys
        self._principal = principal
        self._cache: OrderedDict[bytes, _Verified] = OrderedDict()

    def is_away(self) -> bool:
        """Tell whether no token can be verified, because the provider does not answer."""
        return self._keys.are_away()

    async def find(self, token: str) -> Principal | Refusal:
        """Return the principal of a token."""
        digest = hashlib.sha256(token.encode()).digest()
        cached = self._cache.get(digest)
        # A cached verification is valid only while its key is still trusted.
        if cached is not None and self._keys.are_trusted():
            is_current = cached.generation == self._keys.generation
            if is_current and SystemClock().now() / 1000 < cached.until:
                self._cache.move_to_end(digest)
                return cached.principal
            del self._cache[digest]
        try:
            found = await self._verified(token)
        except ProviderUnavailable:
            return Refusal(503, "provider unavailable")
        except jwt.PyJWTError as error:
            return Refusal(401, _WHY.get(type(error), "malformed token"))
        except Exception as error:
            # A token that crashes the parser is malformed too: fail closed.
            _log.error("token_not_understood", error=type(error).__name__)
            return Refusal(401, "malformed token")
        if isinstance(found, Refusal):
            return found
        self._cache[digest] = found
        if len(self._cache) > MAX_REMEMBERED:
            self._cache.popitem(last=False)
        return found.principal

    async def _verified(self, token: str) -> _Verified | Refusal:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in _TYPES:
            return Refusal(401, "no access token")
        if algorithm not in self._rules.algorithms:
            raise jwt.InvalidAlgorithmError
        # Check claims before the signature: an expired token must not trigger a fetch of keys.
        self._claims(token, None)
        key = await self._keys.find(kid, algorithm)
        if key is None:
            return Refusal(401, "unknown key")
        generation = self._keys.generation
        claims = self._claims(token, key)
        # A sender-constrained token needs a proof of possession, which this server cannot check.
        if not _NOT_ACCESS_TOKENS.isdisjoint(claims) or claims.get("typ") in _OTHER_KINDS:
            return Refusal(401, "no access token")
        name = name_of(claims.get(self._rules.subject_field))
        if isinstance(name, Refusal):
            return name
        prefix = self._rules.not_prefix
        # Ignore letter case: people would read `Local:ana` as `local:ana`.
        if prefix and name.lower().startswith(prefix.lower()):
            return Refusal(401, "subject with the prefix of static tokens")
        return _Verified(self._principal(name), int(claims["exp"]) + self._rules.skew, generation)

    def _claims(self, token: str, key: jwt.PyJWK | None) -> dict[str, Any]:
        """Return a token's claims; without a key its signature is not verified.

        Raises: jwt.PyJWTError: the token is invalid.
        """
        accepts = self._rules
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
