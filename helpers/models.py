"""The tables of the lab and of its document service, as SQLAlchemy sees them. `lab_sql/` makes them."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Enum, FetchedValue, Identity, MetaData
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = "backend_training"
PRIORITIES = ("HIGH", "MEDIUM", "LOW")  # in the order in which they are claimed


class Base(DeclarativeBase):
    """All tables of the lab live in the schema `backend_training`."""

    metadata = MetaData(schema=SCHEMA)


class Task(Base):
    """One background task. The first three columns are the base's; each group below exists since its lesson."""

    __tablename__ = "tasks"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    type: Mapped[str]
    status: Mapped[str]

    # lesson 4
    attempts: Mapped[int]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))

    # lesson 5
    max_attempts: Mapped[int]
    retry_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    last_error: Mapped[str | None]

    # lesson 7
    priority: Mapped[str] = mapped_column(Enum(*PRIORITIES, name="priority", schema=SCHEMA))
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True))

    # lesson 8
    slot: Mapped[int | None]
    slot_attempt: Mapped[int | None]


class OutboxRequest(Base):
    """A request to another service that is still to be sent, or was sent (since lesson 6)."""

    __tablename__ = "outbox"

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    task_id: Mapped[int] = mapped_column(BigInteger)
    idempotency_key: Mapped[str]
    request: Mapped[dict[str, Any]] = mapped_column(JSONB)
    attempts: Mapped[int]
    lease_until: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))
    delivered_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


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


class Document(Base):
    """A document that the document service of lesson 6 has created. In the service's own database."""

    __tablename__ = "documents"
    __table_args__ = {"schema": "document_service"}  # noqa: RUF012 - SQLAlchemy reads it from the class

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    title: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=FetchedValue())  # DEFAULT


class ServiceRequest(Base):
    """What was asked of the document service under one idempotency key, and the answer it gave."""

    __tablename__ = "requests"
    __table_args__ = {"schema": "document_service"}  # noqa: RUF012 - SQLAlchemy reads it from the class

    idempotency_key: Mapped[str] = mapped_column(primary_key=True)
    body: Mapped[dict[str, Any]] = mapped_column(JSONB)
    answer: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
