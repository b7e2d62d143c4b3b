"""The document service of lesson 6: another company's, as far as the workers know.

    python -m helpers.documents            serves on a free port of 127.0.0.1, and says which

It has a process and a database of its own. `service` answers requests, `client` sends them, `faults` are the ways in
which an answer can be told to go wrong. What makes a repeated request harmless stands in `repository/idempotency.py`.
"""
