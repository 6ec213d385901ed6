"""The base of the settings' classes: fields that the environment sets."""

from __future__ import annotations

import os
from collections.abc import Set
from typing import Any

from pydantic import BaseModel, ConfigDict

from streams.settings.environment import is_service_link
from streams.variables import PREFIX


class EnvironmentModel(BaseModel):
    """Reads each field from the variable with our prefix and its name; case does not matter.

    Arguments override variables.

    Args:
        unused: fields that are not read from the environment.
        given: values of fields.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,  # some values are secret
        validate_default=True,
        defer_build=True,  # the classes that `Settings` inherits from are never used alone
    )

    def __init__(self, unused: Set[str] = frozenset(), /, **given: Any) -> None:
        super().__init__(**(self._variables(unused) | given))

    @classmethod
    def _variables(cls, unused: Set[str]) -> dict[str, str]:
        """Return the fields that the environment sets, without variables of Kubernetes."""
        read = {f"{PREFIX}{name.upper()}": name for name in cls.model_fields.keys() - unused}
        return {
            read[name.upper()]: value
            for name, value in os.environ.items()
            if name.upper() in read and not is_service_link(name, value)
        }
