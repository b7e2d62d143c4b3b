"""What every process of the lab has in common, a worker, the document service and a check alike: how it ends.

`exits` by itself, with which exit code and which line; `parent` together with the notebook that started it.
"""
