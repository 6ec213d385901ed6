"""Settings of `accountant login`: where people sign in, and as which client."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from streams.settings.access import check_issuer
from streams.settings.environment_model import EnvironmentModel

_NO_SPACES = r"^[\x21-\x7e]*$"


class LoginSettings(EnvironmentModel):
    """The settings of `accountant login`. No server and no other command uses them."""

    login_issuer: Annotated[str | None, AfterValidator(check_issuer)] = Field(
        None, description="the OpenID provider at which `accountant login` signs in"
    )
    login_client_id: str | None = Field(
        None,
        min_length=1,
        max_length=1_000,
        pattern=_NO_SPACES,
        description="the client id of `accountant login` at the provider: a public (native) client",
    )
    login_scopes: str = Field(
        "openid",
        pattern=r"^[\x21\x23-\x5b\x5d-\x7e ]{1,1000}$",
        description="scopes that `accountant login` asks for, separated by spaces",
    )
    login_audience: str = Field(
        "",
        max_length=1_000,
        pattern=_NO_SPACES,
        description="the audience that `accountant login` asks for, where the provider needs it "
        "(Auth0)",
    )
    login_resource: str = Field(
        "",
        max_length=1_000,
        pattern=_NO_SPACES,
        description="the resource that `accountant login` asks for, where the provider needs it "
        "(RFC 8707)",
    )


LOGIN_FIELDS = frozenset(LoginSettings.model_fields)
