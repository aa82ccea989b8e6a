"""What the scheduler decided lately, and why: in memory, in files, and on pods.

`recorder` is a subscriber of attempts. It copies what the engine knows into a `record`, `store` keeps the newest ones
within a bound of bytes, `view` turns them into JSON. `writer` appends them to a log or a database; `reader` reads
those.
"""
