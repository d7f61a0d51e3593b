"""PostCal: a companion that learnt from the final policy's fresh responses (appendix B.2), for either target.

It scores the hidden states of the evaluated responses (equation 6), as CoCal's companions do.
"""

from cocal_study.config.method import Rival
from cocal_study.methods.cocal import with_companion

_FIELDS = {"group": 2, "experience": "resampled"}
BINARY = with_companion(
    "postcal-binary", "PostCal (binary)", 80, target="binary", colour="#126f2c", marker="D", **_FIELDS
)
GROUP = with_companion("postcal-group", "PostCal (group)", 70, target="group", colour="#96bf7a", marker="d", **_FIELDS)
METHOD = (BINARY, GROUP)
RIVALS = tuple(Rival(name=one.name, position=one.position + 70, method=one.name, reader="resampled") for one in METHOD)
