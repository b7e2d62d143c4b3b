"""Right answers to the exercise `simulate`."""

from collections import Counter


def simulate(mode: str, order: list[str]) -> int:
    status = "pending"
    remembered: dict[str, str] = {}
    successes = 0
    for worker in order:
        if worker not in remembered:  # the first appearance: READ
            remembered[worker] = status
        elif remembered[worker] == "pending" and (mode == "naive" or status == "pending"):
            status = "running"
            successes += 1
    return successes


def by_counting(mode: str, order: list[str]) -> int:
    """A worker succeeds where it has read before the first CLAIM; in atomic mode only the first CLAIM of all does."""
    seen: Counter[str] = Counter()
    for position, worker in enumerate(order):
        seen[worker] += 1
        if seen[worker] == 2:  # the first CLAIM: nobody has changed the status before it
            return len(set(order[:position])) if mode == "naive" else 1
    return 0


SOLUTION = (simulate,)
OTHERS = [(by_counting,)]
