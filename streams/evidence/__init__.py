"""Evidence: signed checkpoints, which reveal that a log was cut, restored or rewritten."""

from streams.evidence.keys import SigningKey, Verifier
from streams.evidence.signed_checkpoint import Checkpoint, CheckpointInvalid
from streams.evidence.store import Directory

__all__ = ["Checkpoint", "CheckpointInvalid", "Directory", "SigningKey", "Verifier"]
