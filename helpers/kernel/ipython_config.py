"""Configuration for the kernels of this environment. See `helpers/kernel/__init__.py`."""

c = get_config()  # type: ignore[name-defined]  # noqa: F821 - IPython puts it here

c.InteractiveShellApp.extensions = ["helpers.kernel"]
