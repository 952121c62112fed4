"""Told to schemathesis by ./x schema.

Answers are not used to look for better questions: in hypothesis 6.170 that search can fail by itself ("Index 43 out of range"), and
all that it was about was to be answered with a 2xx more often.
"""

import hypothesis


def target(observation, *, label=""):
    return observation


hypothesis.target = target
