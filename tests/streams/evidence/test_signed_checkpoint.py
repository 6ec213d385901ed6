"""Keys and signed notes: exactly what was signed is read, and nothing else is believed."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import Refused, Unavailable
from streams.evidence import Checkpoint, CheckpointInvalid, Directory, SigningKey, Verifier
from streams.evidence.signed_checkpoint import open_signed, sign_checkpoint, text_of

HEAD = "sha256:" + "ab" * 32
ONE = Checkpoint("5d" * 16, 0, 0, 41, HEAD, 1_795_446_824_871)
KEY = SigningKey("census.example.org", bytes(range(32)))
OTHER = SigningKey("census.example.org", bytes(range(1, 33)))

checkpoints = st.builds(
    Checkpoint,
    ledger=st.one_of(
        st.binary(min_size=16, max_size=16).map(bytes.hex),
        st.binary(min_size=32, max_size=32).map(lambda value: f"sha256:{value.hex()}"),
    ),
    partition=st.integers(0, 10**6),
    branch=st.integers(0, 10**6),
    sequence=st.integers(0, 10**17),
    head=st.binary(min_size=32, max_size=32).map(lambda value: f"sha256:{value.hex()}"),
    at=st.integers(0, 4 * 10**12),
)


@given(checkpoints)
def test_a_signed_checkpoint_is_read_unchanged(checkpoint: Checkpoint) -> None:
    assert (
        open_signed(sign_checkpoint(checkpoint, KEY), [OTHER.verifier, KEY.verifier]) == checkpoint
    )


@given(checkpoints, checkpoints)
def test_different_checkpoints_have_different_texts(one: Checkpoint, two: Checkpoint) -> None:
    assert (one == two) == (text_of(one) == text_of(two))


def test_a_signed_checkpoint_has_the_format_of_signed_notes() -> None:
    """By the format's own description, with nothing of ours."""
    note = sign_checkpoint(ONE, KEY)
    text, line = note.split("\n\n— ".encode())
    name, value = line.decode().split()
    raw = base64.b64decode(value)
    vname, vid, vkey = KEY.verifier.text.split("+", 2)
    public = base64.b64decode(vkey)
    assert (vname, public[0]) == (name, 1)
    digest = hashlib.sha256(name.encode() + b"\n" + public).digest()
    assert raw[:4] == digest[:4] == bytes.fromhex(vid)
    Ed25519PublicKey.from_public_bytes(public[1:]).verify(raw[4:], text + b"\n")
    lines = text.decode().split("\n")
    assert lines[:2] == [f"accountant/{'5d' * 16}/0", "42"]
    assert base64.b64decode(lines[2]).hex() == "ab" * 32


@given(st.data())
def test_a_changed_byte_makes_a_checkpoint_invalid(data: st.DataObject) -> None:
    note = bytearray(sign_checkpoint(ONE, KEY))
    at = data.draw(st.integers(0, len(note) - 1))
    note[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CheckpointInvalid):
        open_signed(bytes(note), [KEY.verifier])


@pytest.mark.parametrize("keys", [[], [OTHER.verifier]])
def test_a_checkpoint_signed_by_an_unknown_key_is_refused(keys: list[Verifier]) -> None:
    with pytest.raises(CheckpointInvalid, match="no known key has signed it"):
        open_signed(sign_checkpoint(ONE, KEY), keys)


def test_a_checkpoint_may_have_a_second_signature_of_a_witness() -> None:
    witness = SigningKey("witness", b"w" * 32)
    second = sign_checkpoint(ONE, witness).split(b"\n\n")[1]
    assert open_signed(sign_checkpoint(ONE, KEY) + second, [KEY.verifier]) == ONE
    assert open_signed(sign_checkpoint(ONE, KEY) + second, [witness.verifier]) == ONE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n42\n", "\n042\n"),
        ("\n42\n", "\n0\n"),
        ("\n42\n", "\n-1\n"),
        ("branch 0", "branch 00"),
        ("branch 0", "branch  0"),
        ("/0\n", "/00\n"),
        ("Z\n", "Z\nmore\n"),
        ("Z\n", "+00:00\n"),
        ("accountant/", "accountants/"),
    ],
)
def test_a_signed_text_in_another_format_is_refused(old: str, new: str) -> None:
    text = text_of(ONE).decode()
    assert old in text
    forged = text.replace(old, new, 1).encode()
    signature = base64.b64encode(KEY.verifier.id + KEY.sign(forged)).decode()
    note = forged + f"\n— {KEY.verifier.name} {signature}\n".encode()
    with pytest.raises(CheckpointInvalid):
        open_signed(note, [KEY.verifier])


@given(st.binary(max_size=5000))
def test_random_bytes_are_no_checkpoint(garbage: bytes) -> None:
    with pytest.raises(CheckpointInvalid):
        open_signed(garbage, [KEY.verifier])


def test_a_key_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "key"
    key = SigningKey.create(file, "census")
    assert file.stat().st_mode & 0o777 == 0o600
    loaded = SigningKey.load(file)
    assert loaded.verifier.text == key.verifier.text
    assert Verifier.parse(key.verifier.text).verifies(loaded.sign(b"x"), b"x")
    with pytest.raises(Refused, match="a key is never replaced"):
        SigningKey.create(file, "census")
    file.chmod(0o640)
    with pytest.raises(Refused, match="is accessible to other users"):
        SigningKey.load(file)


def test_texts_and_errors_contain_no_private_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    key = SigningKey.create(file, "census")
    secret = file.read_text().strip().split("+", 4)[4]
    assert secret not in repr(key) + str(key) + key.verifier.text
    for damaged in (secret, f"PRIVATE+KEY+census+00000000+{secret}", f"x+{secret}", "", "é"):
        file.write_text(damaged)
        with pytest.raises(Refused) as raised:
            SigningKey.load(file)
        assert secret not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "census",
        "census+00000000+AQ==",
        KEY.verifier.text.replace("+", "+0", 1),
        KEY.verifier.text[:-4],
        KEY.verifier.text.replace("census", "survey"),
        "a b+" + KEY.verifier.text.partition("+")[2],
    ],
)
def test_an_invalid_public_key_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        Verifier.parse(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "x" * 101, "-a", "a\n"])
def test_a_key_name_without_separators_is_required(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="the name of a key"):
        SigningKey.create(tmp_path / "key", name)
    assert not (tmp_path / "key").exists()


def test_a_directory_stores_both_checkpoints_of_a_fork(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "kept")
    fork = ONE._replace(head="sha256:" + "cd" * 32)
    notes = [sign_checkpoint(each, KEY) for each in (ONE, fork)]
    files = [directory.put(each, note) for each, note in zip((ONE, fork), notes, strict=True)]
    assert directory.put(ONE, b"other") == files[0]
    assert sorted(note for _, note in directory.notes()) == sorted(notes)
    assert not [*(tmp_path / "kept").rglob(".*")]


def test_a_missing_directory_raises(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be read"):
        [*Directory(tmp_path / "nowhere").notes()]
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="cannot be stored"):
        Directory(tmp_path / "file").put(ONE, b"")


def test_a_key_is_not_written_through_a_symbolic_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(Refused):
        SigningKey.create(tmp_path / "link", "census")
    assert not target.exists()
