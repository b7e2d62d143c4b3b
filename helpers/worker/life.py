"""What one worker does between its start and its end."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from helpers.diagnosis import is_connection_failure
from helpers.processes.exits import EXIT_DONE, EXIT_STALE
from helpers.repository.batch_renewal import BatchKeeper, Turn
from helpers.repository.lease import StaleClaimError
from helpers.repository.outbox import complete_with_request
from helpers.repository.renewal import LeaseKeeper
from helpers.repository.retry import is_completed_by
from helpers.worker import work
from helpers.worker.faults import Faults
from helpers.worker.journal import Journal
from helpers.worker.queues import Claim, Queue
from helpers.worker.stopping import Stopping, StopRequested

POLL_SECONDS = 0.25  # between two looks at a queue in which nothing is due
AWAY_SECONDS = 60.0  # how long a worker that drains waits for a server that does not answer

Keeper = AbstractContextManager[LeaseKeeper | Turn | None]
Result = TypeVar("Result")


class WorkFailed(Exception):
    """The work of a task raised an exception, which this message names."""


class Life:
    """One worker: its options, its queue, and whom it listens to."""

    def __init__(self, options: Namespace, queue: Queue, journal: Journal, faults: Faults, stopping: Stopping) -> None:
        self.options = options
        self.queue = queue
        self.journal = journal
        self.faults = faults
        self.stopping = stopping
        self.asked = 0.0  # when we last asked for a task: `monotonic()`, in seconds

    def live(self) -> int:
        """Process one task or batch, or all there are with --drain. Returns the exit code."""
        while not self.stopping.asked:
            self.faults.reach("before-claim")
            tasks = self.insist(self.claim, seconds=self.patience)
            if tasks:
                code = self.process(tasks)
                if not self.options.drain:
                    return code
            elif not self.something_comes():
                self.journal.record("idle")
                return EXIT_DONE
        self.journal.record("stopped")
        return EXIT_DONE

    def claim(self) -> Sequence[Claim]:
        """The batch, or a single task in a list; empty where no task is available."""
        self.asked = monotonic()
        lease_seconds = self.options.lease_seconds
        if self.options.batch:
            return self.queue.claim_batch(self.options.batch, dict(self.options.quota), lease_seconds)
        task = self.queue.claim_task(lease_seconds)
        return [] if task is None else [task]

    @property
    def patience(self) -> float:
        """How long to wait for a server that does not answer a claim, in seconds."""
        return AWAY_SECONDS if self.options.drain else 0.0

    def something_comes(self) -> bool:
        """Wait a moment, if there will be something to claim later. False where there will not, or nobody waits."""
        if not self.options.drain or self.queue.seconds_until_due is None:
            return False
        seconds = self.insist(self.queue.seconds_until_due, seconds=self.patience)
        if seconds is None:
            return False
        sleep(min(max(seconds, 0.01), POLL_SECONDS))
        return True

    def process(self, tasks: Sequence[Claim]) -> int:
        """From the claim to the end of each attempt. Returns the exit code for a worker that ends here."""
        for task in tasks:
            self.journal.record("claimed", task)
        self.faults.reach("after-claim", tasks[0])
        with self.keepers(tasks) as keepers:
            codes = [self.outcome(task, keeper) for task, keeper in zip(tasks, keepers, strict=True)]
        return EXIT_STALE if EXIT_STALE in codes else EXIT_DONE

    @contextmanager
    def keepers(self, tasks: Sequence[Claim]) -> Iterator[Sequence[Keeper]]:
        """Who keeps the lease of each task: nobody, or a thread for the task, or one for the whole batch."""
        lease_seconds = self.options.lease_seconds
        if not self.options.renew:
            yield [nullcontext() for _ in tasks]
        elif self.options.batch:
            claims = [(task["id"], task["attempts"]) for task in tasks]
            with BatchKeeper(claims, lease_seconds, self.asked, self.queue.renew_leases) as keeper:
                yield [keeper.turn(claim) for claim in claims]
        else:
            [task] = tasks
            yield [LeaseKeeper(task["id"], task["attempts"], lease_seconds, self.asked, self.queue.renew_lease)]

    def outcome(self, task: Claim, keeper: Keeper) -> int:
        """One attempt, and what its end means for the exit code."""
        try:
            self.attempt(task, keeper)
        except StaleClaimError as refusal:
            self.journal.record("refused", task, detail=str(refusal))
            return EXIT_STALE
        except DBAPIError as error:
            if not self.options.drain or not is_connection_failure(error):
                raise
            self.journal.record("lost", task)  # the server was away for too long: the lease brings the task back
        return EXIT_DONE

    def attempt(self, task: Claim, keeper: Keeper) -> None:
        """The work, its effect, and the completion; or the failure; or the return of the task."""
        try:
            with keeper as lease:
                self.do_the_work(task, lease)
            self.faults.reach("before-completion", task)
            self.complete(task)
            self.journal.record("completed", task)
            self.faults.reach("after-completion", task)
        except StopRequested:
            self.give_back(task)
        except WorkFailed as failure:
            self.fail(task, str(failure))

    def do_the_work(self, task: Claim, lease: LeaseKeeper | Turn | None) -> None:
        """Raises WorkFailed where the work fails; StaleClaimError or StopRequested where it must not go on."""

        def between() -> None:
            self.stopping.check()
            if lease is not None:
                lease.check()

        if self.options.batch and self.stopping.asked:
            raise StopRequested  # the rest of a batch: its work has not begun, so others can have it at once
        self.faults.reach("in-work", task)
        try:
            work.wait(self.options.wait_seconds, between)
            work.compute(task, self.options.work_seconds, between)
            if lease is not None:
                self.insist(lease.confirm)
            self.effect(task, between)
        except (StaleClaimError, StopRequested, DBAPIError):
            raise
        except Exception as error:
            raise WorkFailed(f"{type(error).__name__}: {error}") from error
        self.faults.reach("after-effect", task)

    def effect(self, task: Claim, between: Callable[[], None]) -> None:
        if self.options.documents:
            key = work.request_key(self.queue.request_key(task), task, self.options.key or "task")
            work.order_document(task, self.journal, self.options.documents, key, between)
        elif not self.options.outbox:
            work.say_so(task, self.journal)

    def complete(self, task: Claim) -> None:
        """Complete the task; where the server is away, again and again for as long as a lease lasts."""
        task_id, attempts = task["id"], task.get("attempts", 0)
        try:
            if self.options.outbox:
                request = work.document_request(task)
                self.insist(complete_with_request, task_id, attempts, self.queue.request_key(task), request)
            else:
                self.insist(self.queue.mark_as_completed, task_id, attempts)
        except StaleClaimError:
            if not self.insist(is_completed_by, task_id, attempts):
                raise
            # An earlier try of ours was committed, and its answer was lost.

    def fail(self, task: Claim, error: str) -> None:
        self.journal.record("failed", task, detail=error)
        if self.queue.fail_task is None:
            return  # up to lesson 4 nobody tries again before the lease has ended
        status = self.insist(self.queue.fail_task, task["id"], task["attempts"], error)
        self.journal.record("given_up" if status == "failed" else "retry", task)

    def give_back(self, task: Claim) -> None:
        if self.queue.return_task is None:
            return  # it stays with us until its lease ends
        self.insist(self.queue.return_task, task["id"], task["attempts"])
        self.journal.record("returned", task)

    def insist(self, call: Callable[..., Result], *arguments: object, seconds: float | None = None) -> Result:
        """Call again while the server does not answer, for `seconds` (by default as long as a lease lasts).

        A worker that was asked to stop does not wait longer than its grace time.
        """
        patience = Retrying(
            retry=retry_if_exception(self.may_pass),
            wait=wait_random_exponential(multiplier=0.1, max=1),
            stop=stop_after_delay(self.options.lease_seconds if seconds is None else seconds),
            before_sleep=self.say_once,
            reraise=True,
        )
        return patience(call, *arguments)

    def may_pass(self, error: BaseException) -> bool:
        return isinstance(error, Exception) and is_connection_failure(error) and not self.stopping.overdue

    def say_once(self, state: RetryCallState) -> None:
        if state.attempt_number == 1:
            self.journal.record("away")
