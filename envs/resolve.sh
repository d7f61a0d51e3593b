#!/usr/bin/env bash
# Resolves the packages of each environment without installing them, so that pins that exclude each other show before a
# cluster meets them. `make environments` brings uv; without it, or without the package index, nothing is tried.
set -euo pipefail
cd "$(dirname "$0")"
uv=${UV:-uv}
command -v "$uv" > /dev/null || { echo "environments: not resolved, because there is no uv"; exit 0; }
probe=$(echo pip | "$uv" pip compile --quiet --no-deps - 2>&1 > /dev/null) || {
    echo "environments: not resolved, because the package index does not answer: $probe"
    exit 0
}
for environment in *.yaml; do
    sed -n 's/^      - //p' "$environment" |
        "$uv" pip compile --quiet --python-version 3.11 --python-platform linux - > /dev/null
    echo "environments: $environment resolves"
done
