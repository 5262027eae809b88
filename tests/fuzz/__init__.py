"""Generated calls of every public function, against references and laws: ``make fuzz SECONDS=600``.

A call is a line of Python in the vocabulary of `words`. `lines` writes one from a seed and a number, `child` runs it in
one build of the package and asks `laws` whether the answer may be so, `shrink` makes a failing line small, and
`__main__` keeps a release build and one with overflow checks busy until the time is up.
"""
