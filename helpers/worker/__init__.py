"""One worker process: it claims a task, does the work, completes the task.

    python -m helpers.worker NAME [--lease-seconds S] [--crash-after-claim] [--hold-after-claim] …
    python -m helpers.worker NAME --without-lease …    as in lesson 3: no lease, no attempt number
    python -m helpers.worker NAME --renew --retry …    as in lesson 5: leases are renewed, failures tried again
    python -m helpers.worker NAME --documents URL …    as in lesson 6: the effect is a document, made by a service
    python -m helpers.worker NAME --by-priority …      as in lesson 7: the most urgent task first
    python -m helpers.worker NAME --batch N --quota …  as in lesson 8: many tasks at once, processed in turn

`options` says what a worker can be told, `queues` which functions of `repository/` it calls, `work` what the work is,
`heart` the worker of lessons 3 and 4, `life` what came later, `stopping` what SIGTERM and Ctrl-C do, `faults` where it
can crash or hold, `journal` what it says.

Three other processes live here, each a module to start: `racer` of lesson 1, `long_transaction` of lesson 2, and
`relay`, which sends what stands in the outbox.

Exit codes: 0 done, nothing to do, or stopped as asked; 2 a stale claim was refused; 17 the crash that was asked for;
64 wrong usage; 69 the database cannot be used (no server, or a migration is missing); 70 nobody is left to press Enter;
130 a second Ctrl-C.
"""

from helpers.worker.heart import run, run_without_lease

__all__ = ["run", "run_without_lease"]
