"""The tests that compute in floats, under the kernels of other processors: ``make portable``.

PyTorch, oneDNN, MKL, OpenBLAS and NumPy choose among kernels by the processor, and sums round
otherwise in each. A test that passes under one of them alone fails on somebody's machine.
"""

import os
import subprocess
import sys

TESTS = ("tests/training", "tests/defences", "tests/attacks", "tests/federation", "tests/targets",
         "tests/metrics", "tests/audits", "tests/finished_runs", "tests/secrets", "tests/checks",
         "tests/canaries", "tests/studies", "tests/exports", "papers/tests", "fast/tests",
         "tests/report", "docs")  # fmt: skip


def kernels() -> dict[str, dict[str, str]]:
    """Environments, by the processor whose kernels they choose."""
    return {
        "2008, without AVX": {
            "ATEN_CPU_CAPABILITY": "default",
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OPENBLAS_CORETYPE": "Nehalem",
            "MKL_CBWR": "COMPATIBLE",
            "NUMBA_CPU_NAME": "nehalem",
            "NUMBA_CPU_FEATURES": "+sse4.2",
            "NPY_DISABLE_CPU_FEATURES": " ".join(_dispatched()),
        },
        "2013, with AVX2": {
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "OPENBLAS_CORETYPE": "Haswell",
            "MKL_CBWR": "AVX2",
            "NUMBA_CPU_NAME": "haswell",
            "NUMBA_CPU_FEATURES": "+avx2,+fma",
            "NPY_DISABLE_CPU_FEATURES": " ".join(n for n in _dispatched() if n != "X86_V3"),
        },
        "AMD, without AVX-512 in OpenBLAS": {"OPENBLAS_CORETYPE": "Zen", "MKL_CBWR": "AUTO"},
        "this one, two threads": {"OMP_NUM_THREADS": "2"},
    }


def _dispatched() -> list[str]:
    """Sets of instructions for which this NumPy has kernels, and which this processor has."""
    import numpy as np

    found: list[str] = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return found


def main(arguments: list[str]) -> int:
    """Run the tests once under each, with these arguments of pytest."""
    failed = []
    for name, environment in kernels().items():
        sys.stdout.write(f"kernels: {name}\n")
        sys.stdout.flush()
        line = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", *TESTS, *arguments]
        if subprocess.run(line, env=os.environ | environment).returncode:
            failed.append(name)
    sys.stdout.write(f"failed under: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
