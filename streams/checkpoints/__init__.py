"""Signed checkpoints: who has one can tell whether a log was cut, put back or written anew."""

from streams.checkpoints.directory import Directory
from streams.checkpoints.keys import SigningKey, Verifier
from streams.checkpoints.note import Checkpoint, NoteInvalid

__all__ = ["Checkpoint", "Directory", "NoteInvalid", "SigningKey", "Verifier"]
