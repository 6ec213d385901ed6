"""Signed checkpoints: who has one can tell whether a log was cut, put back or written anew."""

from streams.evidence.directory import Directory
from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.note import Checkpoint, NoteInvalid

__all__ = ["Checkpoint", "Directory", "NoteInvalid", "SigningKey", "Verifier"]
