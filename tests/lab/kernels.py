"""A real kernel, as JupyterLab starts it."""

from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

START_SECONDS = 120


class Kernel:
    """A kernel that runs one piece of code after the other."""

    def __init__(self) -> None:
        self.manager: KernelManager
        self.client: BlockingKernelClient
        self.manager, self.client = start_new_kernel(startup_timeout=START_SECONDS)

    def run(self, code: str) -> str:
        """Run `code` and return what it printed, or the lines that it shows for an error."""
        shown: list[str] = []

        def note(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "error":
                shown.append("\n".join(content["traceback"]))

        self.client.execute_interactive(code, output_hook=note, timeout=START_SECONDS)
        return "".join(shown)
