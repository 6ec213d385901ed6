"""Real data, and the exact statistics of checked questions about it, through DuckDB.

Needs the extra `answers`.
"""

from __future__ import annotations

from streams.sources.contribution_key import default_key_path as default_key_path
from streams.sources.contribution_key import load_contribution_key as load_contribution_key
from streams.sources.data_sources import DataSources as DataSources
from streams.sources.data_sources import SourceAway as SourceAway
from streams.sources.data_sources import SourceUnreadable as SourceUnreadable
from streams.sources.data_sources import make_data_sources as make_data_sources
from streams.sources.data_sources import read_data_sources as read_data_sources
from streams.sources.source_settings import SourceSettings as SourceSettings
