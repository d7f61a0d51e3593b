#!/usr/bin/env bash
# Snakemake runs this once in the new environment, from the folder it was started in: the package from this checkout.
set -euo pipefail
checkout=${COCAL_CHECKOUT:-$PWD}
if [ ! -f "$checkout/src/cocal/cli.py" ]; then
    echo "$checkout is not the checkout of CoCal; start snakemake there, or export COCAL_CHECKOUT" >&2
    exit 1
fi
python -m pip install --no-deps --editable "$checkout" --editable "$checkout/src"
