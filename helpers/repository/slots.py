"""Lesson 8: a bound that holds across workers: numbered slots, one task in each."""

from datetime import timedelta

from psycopg.errors import UniqueViolation
from sqlalchemy import RowMapping, text
from sqlalchemy.exc import IntegrityError

from helpers.db import SessionFactory
from helpers.repository.batch import AVAILABLE, checked_quotas
from helpers.repository.lease import checked_lease_seconds
from helpers.repository.retry import NEVER_CAME_BACK
