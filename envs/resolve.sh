#!/usr/bin/env bash
# Resolves the packages of each environment without installing them, so that pins that exclude each other show before a
# cluster meets them. `make environments` brings uv; without it, or without the package index, nothing is tried. What the
# newest packages would be that resolve together is a warning: whoever raises a pin reads the reason beside it first.
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
    pins=$(sed -n 's/^      - \([^ ]*==[^ ]*\).*/\1/p' "$environment")
    if newest=$(sed 's/==/>=/' <<< "$pins" |
        "$uv" pip compile --quiet --no-header --no-annotate --python-version 3.11 --python-platform linux -); then
        names=$(sed 's/==.*//' <<< "$pins" | paste -sd '|' -)
        newer=$(grep -E "^($names)==" <<< "$newest" | grep -Fxv -f <(echo "$pins") | paste -sd ' ' - || true)
        [ -z "$newer" ] || echo "environments: warning: $environment would resolve with newer packages, too: $newer"
    else
        echo "environments: warning: the newest packages of $environment do not resolve together"
    fi
done
