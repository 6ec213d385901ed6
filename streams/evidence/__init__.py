"""Signed checkpoints: who has one can tell whether a log was cut, put back or written anew."""

from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.note import Checkpoint, NoteInvalid
from streams.evidence.store import Directory

__all__ = ["Checkpoint", "Directory", "NoteInvalid", "SigningKey", "Verifier"]
