"""The storm of lesson 9: real workers on a real queue, and everything that can happen to them, at random from a seed.

`forecast` decides what will happen. `proxy` is a network that can be cut and can stall, `fleet` has the workers behind
it, `functions` says whose code they run, `weather` passes the time. `verdict` judges what is left in the tables, and
`result` shows it. `storm` puts all of it together.
"""
