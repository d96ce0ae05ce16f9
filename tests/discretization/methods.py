"""The discretizations by name, shared by the tests."""

import hamfem as hf

METHODS = {
    "cg": hf.cg,
    "lumped": lambda wave, k: hf.cg(wave, k, lumped=True),
    "mixed": hf.mixed,
    "hdg": hf.hdg,
    "dissipative_hdg": hf.dissipative_hdg,
}
