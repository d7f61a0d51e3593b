"""Portable numerics: the same bytes on every x86-64 processor with AVX2 and FMA.

Libraries choose code by the processor that they run on, and different code rounds differently; training amplifies the
last digit of one sum into another policy. The variables below hold every library to code that gives the same bytes on
all processors with AVX2, which those of Intel and AMD have since about 2015. Libraries read them once, so they must be
set before a process starts.
"""

import os
import platform
from pathlib import Path
from typing import Literal

from cocal.errors import ConfigError

Numerics = Literal["portable", "native", "bfloat16"]
"""Portable results do not depend on the processor; native ones come from each library's fastest code; bfloat16 is
native, with the passes of policies in bfloat16 where the processor computes with it, as on a GPU."""

PORTABLE = {
    # PyTorch's own kernels: softmax, GELU, attention and reductions use vectors of 512 bits where there are any.
    "ATEN_CPU_CAPABILITY": "avx2",
    # MKL would compute PyTorch's matrix products, in this mode two to three times as slowly as in others; AVX2 and
    # AVX2,STRICT give other bytes in small products on processors of AMD. `cocal.runtime.products` therefore gives them
    # to OpenBLAS. What still calls MKL keeps its bytes by this mode: fused attention and linear algebra.
    "MKL_CBWR": "COMPATIBLE",
    # MKL's vector functions (exp, log, sqrt, tanh of a tensor) would use code for SSE, whose estimates of square roots
    # differ between processors of Intel and AMD. Intel does not document this variable; 3 stands for AVX2.
    "MKL_VML_DEBUG_CPU_TYPE": "3",
    # oneDNN computes matrix products of 16-bit numbers and convolutions, with AVX-512 and AMX where there are any.
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    # OpenBLAS computes NumPy's and PyTorch's matrix products; its code for Haswell runs on every processor with AVX2.
    "OPENBLAS_CORETYPE": "Haswell",
    # NumPy's own exp, log, tanh and sort have code for AVX-512 (X86_V4 and its extensions, as NumPy names them).
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
"""Environment variables that make the numerical libraries portable."""
_BFLOAT16 = {"COCAL_PASSES": "bfloat16"}
"""The environment variable of jobs whose policies compute in bfloat16."""

_CPU_INFO = Path("/proc/cpuinfo")
"""Linux's description of the processor."""
_NEEDED = {"avx2", "fma"}
_REMEDY = "set `numerics: native` in the study (or give --config numerics=native); its results then fit this machine"


def environment(numerics: str) -> dict[str, str]:
    """The variables for the environment of a study's jobs."""
    return {"portable": dict(PORTABLE), "bfloat16": dict(_BFLOAT16)}.get(numerics, {})


def active() -> Numerics:
    """The numerics of this process, according to its environment."""
    if PORTABLE.items() <= os.environ.items():
        return "portable"
    return "bfloat16" if _BFLOAT16.items() <= os.environ.items() else "native"


def half_precision() -> bool:
    """True if the passes of policies on this processor are in bfloat16."""
    return active() == "bfloat16" and computes_bfloat16()


def cpu_told() -> dict[str, str]:
    """The entries of Linux's description of the first processor, such as "model name" and "flags"; empty elsewhere."""
    lines = _CPU_INFO.read_text().partition("\n\n")[0].splitlines() if _CPU_INFO.is_file() else []
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def processor() -> str:
    """The model of the processor as Linux names it; elsewhere its architecture and the system."""
    return cpu_told().get("model name", f"{platform.machine()} ({platform.system()})")


def computes_bfloat16() -> bool:
    """True if the processor has instructions for products of bfloat16 numbers; others imitate them slowly."""
    told = cpu_told()
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint((told.get("flags") or told.get("Features", "")).split())


def obstacle() -> str:
    """The reason why this machine cannot compute portable numerics, as a clause; empty where it can."""
    told = cpu_told()
    if platform.machine() != "x86_64" or not told:
        return (
            "portable results need a Linux machine with an x86-64 processor, not "
            f"{platform.system()} on {platform.machine()}"
        )
    missing = sorted(_NEEDED.difference(told.get("flags", "").split()))
    if not missing:
        return ""
    return f"portable results need a processor with AVX2 and FMA, and this one lacks {' and '.join(missing)}"


def check_processor() -> None:
    """Raise a ConfigError if numerics are portable and the processor is no x86-64 with AVX2 and FMA."""
    if active() == "portable" and (reason := obstacle()):
        raise ConfigError(f"numerics: {reason}; {_REMEDY}")
