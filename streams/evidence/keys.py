"""Ed25519 keys that sign checkpoints, in the text form of signed notes (c2sp.org/signed-note)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from streams.errors import Refused
from streams.files.private_files import read_private
from streams.files.whole_files import write_whole

_ALGORITHM: Final = b"\x01"  # Ed25519, as signed notes number it
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@:-]{0,99}")  # no space and no plus
_PRIVATE: Final = "PRIVATE+KEY"
_BYTES: Final = 32
_MOST_FILE: Final = 4_096


class Verifier:
    """A public key with its name, as `NAME+ID+BASE64`.

    Attributes:
        id: four bytes of a hash of name and key; each signature names it.
        text: the public key as auditors store it.
    """

    def __init__(self, name: str, public: bytes) -> None:
        check_name(name)
        self.name = name
        self._public = Ed25519PublicKey.from_public_bytes(public)
        self.id = hashlib.sha256(name.encode() + b"\n" + _ALGORITHM + public).digest()[:4]
        self.text = f"{name}+{self.id.hex()}+{_base64(_ALGORITHM + public)}"

    @classmethod
    def parse(cls, text: str) -> Verifier:
        """Return the key in a text.

        Raises: Refused: the text is not a public key.
        """
        name, _, rest = text.strip().partition("+")
        found, _, encoded = rest.partition("+")
        try:
            key = base64.b64decode(encoded, validate=True)
            if key[:1] != _ALGORITHM or len(key) != 1 + _BYTES:
                raise ValueError("not an Ed25519 key")
            made = cls(name, key[1:])
        except (ValueError, binascii.Error) as error:
            rule = "a public key must be NAME+ID+BASE64, as `accountant key show` prints it"
            raise Refused(f"{rule}: {error}") from error
        if made.id.hex() != found:
            raise Refused(f"the id of public key {name} must be {made.id.hex()}, got {found[:16]}")
        return made

    def verifies(self, signature: bytes, text: bytes) -> bool:
        """Return whether this key has signed a text."""
        try:
            self._public.verify(signature, text)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """A private key with its name; its text is secret and appears only in its file.

    Attributes:
        verifier: the public key.
    """

    def __init__(self, name: str, seed: bytes) -> None:
        check_name(name)
        self._private = Ed25519PrivateKey.from_private_bytes(seed)
        self.verifier = Verifier(name, self._private.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"SigningKey({self.verifier.text})"

    @classmethod
    def create(cls, path: Path, name: str, *, of_service: bool = False) -> SigningKey:
        """Create a key and its file, readable by this user only; never replace a file.

        Args:
            of_service: root gives the file to the owner of its directory, whose service reads it.
        Raises: Refused: the name is invalid, or the file exists or cannot be written.
        """
        key = cls(name, os.urandom(_BYTES))
        try:
            with write_whole(path, of_service=of_service) as file:
                file.write(f"{key._text()}\n".encode("ascii"))
        except FileExistsError as error:
            raise Refused(
                f"{path} exists, and a key is never replaced: name another file"
            ) from error
        except OSError as error:
            raise Refused(f"{path} cannot be written: {error}") from error
        return key

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Read a key from its file.

        Raises: Refused: other users may read the file, or it is not a key.
        """
        try:
            text = read_private(
                path,
                _MOST_FILE,
                what="the file of the signing key",
                then="replace the key: `accountant key rotate`",
            ).content.decode("ascii")
        except FileNotFoundError as error:
            made = f"`accountant key create {path}`"
            raise Refused(f"{path} does not exist. {made} makes a signing key") from error
        except UnicodeDecodeError:
            raise Refused(
                f"{path} is not a signing key: make one with `accountant key create`"
            ) from None
        return cls._parsed(text.strip(), path)

    @classmethod
    def _parsed(cls, text: str, path: Path) -> SigningKey:
        begin, _, rest = text.partition(f"{_PRIVATE}+")
        parts = rest.split("+", 2)
        try:
            if begin or len(parts) != 3:
                raise ValueError
            seed = base64.b64decode(parts[2], validate=True)
            if seed[:1] != _ALGORITHM:
                raise ValueError
            key = cls(parts[0], seed[1:])
        except (ValueError, binascii.Error, Refused):
            raise Refused(
                f"{path} is not a signing key: make one with `accountant key create`"
            ) from None  # never its contents
        if key.verifier.id.hex() != parts[1]:
            raise Refused(f"{path} is damaged: its id is that of another key")
        return key

    def _text(self) -> str:
        seed = self._private.private_bytes_raw()
        verifier = self.verifier
        return f"{_PRIVATE}+{verifier.name}+{verifier.id.hex()}+{_base64(_ALGORITHM + seed)}"

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a text, 64 bytes."""
        return self._private.sign(text)


def check_name(name: str) -> None:
    """Check the name of a key.

    Raises: Refused.
    """
    if _NAME.fullmatch(name) is None:
        rule = "must be 1 to 100 letters, digits, '.', '_', '/', '@', ':' or '-'"
        raise Refused(f"the name of a key {rule}, got {name[:100]!r}")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
