"""Tokens of an OpenID provider: verification, and the ledger's name for a subject."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import jwt

from accountant.records.names import ESCAPE_MARK, LONGEST_NAME, escaped_subject, is_name
from streams.auth.principal import Principal
from streams.auth.provider_keys import ProviderKeys
from streams.clock import SystemClock
from streams.http.refusal import Refusal
from streams.oauth.provider_http import ProviderUnavailable
from streams.telemetry.logs import get_logger

if TYPE_CHECKING:
    from jwt.types import Options


_T = TypeVar("_T")
_NO_NAME: Final = Refusal(401, "subject is no name")


def name_of(subject: object) -> str | Refusal:
    """Return a unique ledger name for a provider's subject.

    A subject that is a valid name stays unchanged. All others are escaped, and so is a name that
    begins with `ESCAPE_MARK`, which could collide with an escaped one. A subject is never hashed
    or cut, so that a reader of the log can identify the person.
    """
    if not isinstance(subject, str) or not subject:
        return _NO_NAME
    if is_name(subject) and not subject.startswith(ESCAPE_MARK):
        return subject
    try:
        name = escaped_subject(subject)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return _NO_NAME
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


class TokenIdentity(NamedTuple):
    """A person, as a token names them.

    Attributes:
        subject: the claim `sub`, None without one.
        named_by: the claim that makes the name.
    """

    principal: Principal
    subject: object
    named_by: object


class _Verified(NamedTuple):
    identity: TokenIdentity
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
        """Return the principal of an access token."""
        found = await self.identify(token)
        return found if isinstance(found, Refusal) else found.principal

    async def identify(self, token: str) -> TokenIdentity | Refusal:
        """Return the person of an access token."""
        digest = hashlib.sha256(token.encode()).digest()
        cached = self._cache.get(digest)
        # A cached verification is valid only while its key is still trusted.
        if cached is not None and self._keys.are_trusted():
            is_current = cached.generation == self._keys.generation
            if is_current and SystemClock().now() / 1000 < cached.until:
                self._cache.move_to_end(digest)
                return cached.identity
            del self._cache[digest]
        found = await _refused_if_invalid(self._verified(token))
        if isinstance(found, Refusal):
            return found
        self._cache[digest] = found
        if len(self._cache) > MAX_REMEMBERED:
            self._cache.popitem(last=False)
        return found.identity

    async def check_sign_in(
        self, access_token: str, id_token: str, *, client_id: str, nonce: str
    ) -> TokenIdentity | Refusal:
        """Return the person who has signed in, by the two tokens of one answer of the provider.

        Args:
            client_id: the audience of the ID token.
            nonce: what the sign-in was begun with.
        """
        identity = await self.identify(access_token)
        if isinstance(identity, Refusal):
            return identity
        found = await _refused_if_invalid(self._verified_claims(id_token, client_id))
        if isinstance(found, Refusal):
            return Refusal(found.status, f"ID token: {found.why}")
        claims, _ = found
        sent = claims.get("nonce")
        if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
            return Refusal(401, "ID token: other nonce")
        # A token for several audiences names the one that asked for it.
        is_shared = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if is_shared else client_id) != client_id:
            return Refusal(401, "ID token: other authorized party")
        # Some providers put the configured field into access tokens alone.
        named_by, subject = claims.get(self._rules.subject_field), claims.get("sub")
        same = named_by == identity.named_by if named_by else subject == identity.subject
        if not same or not isinstance(subject, str) or not subject:
            return Refusal(401, "ID token: other subject")
        return identity

    async def _verified(self, token: str) -> _Verified | Refusal:
        found = await self._verified_claims(token, self._rules.audience)
        if isinstance(found, Refusal):
            return found
        claims, generation = found
        # A sender-constrained token needs a proof of possession, which this server cannot check.
        if not _NOT_ACCESS_TOKENS.isdisjoint(claims) or claims.get("typ") in _OTHER_KINDS:
            return Refusal(401, "no access token")
        named_by = claims.get(self._rules.subject_field)
        name = name_of(named_by)
        if isinstance(name, Refusal):
            return name
        prefix = self._rules.not_prefix
        # Ignore letter case: people would read `Local:ana` as `local:ana`.
        if prefix and name.lower().startswith(prefix.lower()):
            return Refusal(401, "subject with the prefix of static tokens")
        identity = TokenIdentity(self._principal(name), claims.get("sub"), named_by)
        return _Verified(identity, int(claims["exp"]) + self._rules.skew, generation)

    async def _verified_claims(
        self, token: str, audience: str
    ) -> tuple[dict[str, Any], int] | Refusal:
        """Return the claims of a signed token, and the generation of the keys.

        Raises: ProviderUnavailable, jwt.PyJWTError.
        """
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if str(header.get("typ", "JWT")).lower().removeprefix("application/") not in _TYPES:
            return Refusal(401, "no access token")
        if algorithm not in self._rules.algorithms:
            raise jwt.InvalidAlgorithmError
        # Check claims before the signature: an expired token must not trigger a fetch of keys.
        self._claims(token, None, audience)
        key = await self._keys.find(kid, algorithm)
        if key is None:
            return Refusal(401, "unknown key")
        generation = self._keys.generation
        return self._claims(token, key, audience), generation

    def _claims(self, token: str, key: jwt.PyJWK | None, audience: str) -> dict[str, Any]:
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
            audience=audience,
            issuer=accepts.issuer,
            leeway=accepts.skew,
        )


async def _refused_if_invalid(checking: Awaitable[_T | Refusal]) -> _T | Refusal:
    """Return what a check finds, and a refusal for what it raises."""
    try:
        return await checking
    except ProviderUnavailable:
        return Refusal(503, "provider unavailable")
    except jwt.PyJWTError as error:
        return Refusal(401, _WHY.get(type(error), "malformed token"))
    except Exception as error:
        # A token that crashes the parser is malformed too: fail closed.
        _log.error("token_not_understood", error=type(error).__name__)
        return Refusal(401, "malformed token")
