"""Settings of the curator: how questions are run, and where the answers are."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from accountant.records.names import LONGEST_NAME
from streams.settings.environment_model import EnvironmentModel


class QuestionSettings(EnvironmentModel):
    """The settings of `accountant curator`, and of a server that runs questions itself."""

    curator_store: Path | None = Field(
        None,
        description="file of the answers to the questions of a ledger in a file [next to the "
        "ledger's file]",
    )
    curator_name: str = Field(
        "curator",
        min_length=1,
        max_length=LONGEST_NAME,
        description="name of the curator, which owners give the role `curator`",
    )
    curator_tick_seconds: float = Field(
        1.0,
        ge=0.1,
        le=3_600,
        description="time between two moments at which answers become readable, in seconds",
    )
    curator_parallel: int = Field(
        2, ge=1, le=64, description="largest number of questions that read data at the same time"
    )
    curator_turn_seconds: int = Field(
        900,
        ge=1,
        le=86_400,
        description="longest time of one question, in seconds, before others have their turn, and "
        "of its wait for a source that is away; no source's `seconds` may be longer than a sixth "
        "of it",
    )
    questions_waiting: int = Field(
        1_000,
        ge=1,
        le=4_000,  # a curator fails what is beyond 5,000
        description="largest number of questions that wait for an answer, of one analyst or one "
        "engine; servers refuse more",
    )


QUESTION_FIELDS = frozenset(QuestionSettings.model_fields)
