"""Wrong answers to the exercise `simulate`.

Those of MISCONCEPTIONS are a diagnosis too: where a learner's function counts as one of them does in every order of two
and three workers, the check says what that one does wrong.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def atomic_as_naive(_mode: str, order: list[str]) -> int:
    status, remembered, successes = "pending", {}, 0
    for worker in order:
        if worker not in remembered:
            remembered[worker] = status
        elif remembered[worker] == "pending":
            status = "running"
            successes += 1
    return successes


def naive_as_atomic(_mode: str, order: list[str]) -> int:
    status, remembered, successes = "pending", {}, 0
    for worker in order:
        if worker not in remembered:
            remembered[worker] = status
        elif remembered[worker] == "pending" and status == "pending":
            status = "running"
            successes += 1
    return successes


def never_running(mode: str, order: list[str]) -> int:
    remembered, successes = {}, 0
    for worker in order:
        if worker not in remembered:
            remembered[worker] = "pending"
        elif mode == "naive" or successes == 0:
            successes += 1
    return successes


def one_memory(mode: str, order: list[str]) -> int:
    status, remembered, successes = "pending", "", 0
    seen = set()
    for worker in order:
        if worker not in seen:
            seen.add(worker)
            remembered = status
        elif remembered == "pending" and (mode == "naive" or status == "pending"):
            status = "running"
            successes += 1
    return successes


def counts_from_one(mode: str, order: list[str]) -> int:
    return (atomic_as_naive if mode == "naive" else naive_as_atomic)(mode, order) + 1


MISCONCEPTIONS: dict[str, Callable[[str, list[str]], int]] = {
    "atomic_as_naive": atomic_as_naive,
    "naive_as_atomic": naive_as_atomic,
    "never_running": never_running,
    "one_memory": one_memory,
    "counts_from_one": counts_from_one,
}


def right(mode: str, order: list[str]) -> int:
    return (atomic_as_naive if mode == "naive" else naive_as_atomic)(mode, order)


def prints_the_result(mode: str, order: list[str]) -> None:
    print(right(mode, order))


def prints_as_well(mode: str, order: list[str]) -> int:
    print("counting", order)
    return right(mode, order)


def only_the_table(mode: str, order: list[str]) -> int:
    if mode == "atomic" or order[0] == order[1]:
        return 1
    return len(set(order))


def empties_the_order(mode: str, order: list[str]) -> int:
    result = right(mode, order)
    order.clear()
    return result


def returns_a_list(mode: str, order: list[str]) -> list[int]:
    return [right(mode, order)]


def returns_a_bool(mode: str, order: list[str]) -> bool:
    return right(mode, order) > 0


def forgets_to_return(mode: str, order: list[str]) -> None:
    right(mode, order)


def raises(mode: str, order: list[str]) -> int:
    remembered: dict[str, str] = {}
    return int(remembered[order[0]] == mode)


def asks(_mode: str, _order: list[str]) -> int:
    return int(input("How many? "))


def takes_one_argument(order: list[str]) -> int:
    return len(order)


def loops_for_ever(_mode: str, _order: list[str]) -> int:
    while True:
        pass


def prints_for_ever(_mode: str, _order: list[str]) -> int:
    while True:
        print("still counting")


def ends_its_process(_mode: str, _order: list[str]) -> int:
    os._exit(3)


def kills_its_process(_mode: str, _order: list[str]) -> int:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
    return 1


def calls_exit(_mode: str, _order: list[str]) -> int:
    raise SystemExit(4)


def ignores_other_names(mode: str, order: list[str]) -> int:
    return right(mode, [worker for worker in order if worker in ("A", "B", "C", "D")])


# name → the functions, and a part of the sentence; those below are found by the mini rules, unless they are in FULL.
WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "atomic treated as naive": ((atomic_as_naive,), "what was true at the READ is taken for true at the CLAIM"),
    "naive treated as atomic": ((naive_as_atomic,), "that is the mistake that the simulation is to show"),
    "the status is never set": ((never_running,), "Here each CLAIM of naive mode counts"),
    "one memory for all": ((one_memory,), "Here the last READ of anybody counts for all"),
    "counts from one": ((counts_from_one,), "The count is one too high"),
    "prints the result": ((prints_the_result,), "It printed something and returned nothing"),
    "prints as well": ((prints_as_well,), "something was printed as well"),
    "only the table": ((only_the_table,), "this order is not among them"),
    "empties the order": ((empties_the_order,), "It changed the list `order`"),
    "returns a list": ((returns_a_list,), "It returned a list"),
    "returns a bool": ((returns_a_bool,), "It returned a bool"),
    "forgets to return": ((forgets_to_return,), "It returned nothing"),
    "raises": ((raises,), "It raised KeyError: 'A'"),
    "asks": ((asks,), "It asked for input with input()"),
    "takes one argument": ((takes_one_argument,), "It could not be called like this"),
    "loops for ever": ((loops_for_ever,), "It had not come back after 5 s, and was ended"),
    "ends its process": ((ends_its_process,), "ended its own process, with exit code 3"),
    "kills its process": ((kills_its_process,), "ended its own process, "),
    "calls exit": ((calls_exit,), "It raised SystemExit"),
    "knows only A to D": ((ignores_other_names,), "A name may be any text"),
}
FULL = {"one memory for all", "prints as well", "only the table", "knows only A to D"}
