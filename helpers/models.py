"""The table of tasks and its ledger, as SQLAlchemy sees them. The tables themselves are made by `lab_sql/`."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Identity, MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = "backend_training"


class Base(DeclarativeBase):
    """All tables of the lab live in the schema `backend_training`."""

    metadata = MetaData(schema=SCHEMA)


class Task(Base):
    """One background task. `attempts` and `lease_until` exist since lesson 4."""

    __tablename__ = "tasks"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    type: Mapped[str]
    status: Mapped[str]
    attempts: Mapped[int]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class TaskEvent(Base):
    """One row of the ledger: a change of a task (written by a trigger), or what a process did."""

    __tablename__ = "task_events"

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(DateTime(timezone=True))
    actor: Mapped[str]
    event: Mapped[str]
    task_id: Mapped[int | None] = mapped_column(BigInteger)
    old_status: Mapped[str | None]
    new_status: Mapped[str | None]
    attempt: Mapped[int | None]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    detail: Mapped[str | None]
