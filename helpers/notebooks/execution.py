"""Executes the cells of a notebook in a kernel of its own."""

import asyncio
import atexit
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbclient.util import ensure_async, run_sync
from nbformat import NotebookNode

from helpers.bootstrap import COMMAND
from helpers.errors import LabError
from helpers.paths import lab_folder

CELL_TIMEOUT_SECONDS = 300

TEXTS = {
    "no_kernel": (
        "The notebook's kernel did not start; its own words stand above. Often the disk that holds {folder} is full. "
        "{command} doctor checks that."
    ),
}


class Client(NotebookClient):
    """A client for which Ctrl-C means: interrupt the cell as in JupyterLab, end the kernel, raise KeyboardInterrupt.

    The library's own handler ends a kernel in the middle of a cell, and then reports a kernel that died.
    """

    _interrupted = False
    _in_cell = False

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Called when the library has put its handler in place, and before anything is started."""
        task = asyncio.current_task()
        assert task is not None

        async def interrupt_cell() -> None:
            assert self.km is not None
            await ensure_async(self.km.interrupt_kernel())

        def interrupt() -> None:
            if self._in_cell and not self._interrupted:
                self._asking = asyncio.ensure_future(interrupt_cell())
            else:  # there is no cell that could end by itself, or it does not
                if self.code_cells_executed == 0:  # a kernel that is just starting has nothing to put away
                    self.shutdown_kernel = "immediate"
                task.cancel()
            self._interrupted = True

        with suppress(NotImplementedError):  # Windows: there KeyboardInterrupt comes by itself
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
        await super().async_start_new_kernel(**kwargs)

    async def async_execute_cell(self, *args: Any, **kwargs: Any) -> NotebookNode:
        self._in_cell = True
        cell = await super().async_execute_cell(*args, **kwargs)
        self._in_cell = False
        if self._interrupted:  # and the cell took no notice
            raise KeyboardInterrupt
        return cell

    def execute(self, **kwargs: Any) -> NotebookNode:
        try:
            return run_sync(self.async_execute)(**kwargs)
        except BaseException:
            if self._interrupted:
                raise KeyboardInterrupt from None
            raise


def client(notebook: NotebookNode, path: Path, **hooks: Any) -> NotebookClient:
    return Client(
        notebook,
        timeout=CELL_TIMEOUT_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # a loopback kernel need not warn that it is not encrypted
        **hooks,
    )


def execute(client: NotebookClient) -> None:
    """Run all cells. Raises LabError where the kernel does not even start; else what nbclient raises."""
    try:
        client.execute()
    except DeadKernelError:
        raise
    except (OSError, RuntimeError) as error:  # RuntimeError is all that nbclient says of a kernel that ends at once
        atexit.unregister(client._cleanup_kernel)  # at the end of this process it would stumble over that kernel
        if isinstance(error, OSError):
            raise
        raise LabError(TEXTS["no_kernel"].format(folder=lab_folder(), command=COMMAND)) from None
