"""Configuration for the kernels of this environment. See `helpers/kernel.py`."""

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - IPython puts it here

c.InteractiveShellApp.extensions = ["helpers.kernel"]
