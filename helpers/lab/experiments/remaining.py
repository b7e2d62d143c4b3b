"""Shows from the ledger how much of a lease was left while its task was worked on."""

from IPython.display import display

from helpers import views
from helpers.db import engine
from helpers.diagnosis import readable_errors


def remaining_lease(task_id: int, lease_seconds: float) -> None:
    """Draw what was left of the lease over the newest attempt of a task, and say whether it was renewed in good time.

    `lease_seconds` is how long the lease is when it is new. In good time is a renewal that comes while more than a
    third of that is left.
    """
    with readable_errors(), engine().connect() as connection:
        ledger = views.read_ledger(connection)
    chart = views.remaining(ledger, task_id, lease_seconds)
    data, metadata = chart._repr_mimebundle_()
    if "image/png" in data:  # without a renewal there is no picture, only a sentence
        display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(chart.description)
