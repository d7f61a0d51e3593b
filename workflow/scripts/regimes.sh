#!/usr/bin/env bash
# Runs all points of one replicate of the regimes on one core. All other points start from a copy of the unchanged one,
# so that Snakemake remakes only what depends on its keys. A stopped run goes on where it stopped.
#   regimes.sh FOLDER TARGET...
set -euo pipefail
folder=$1
shift
targets=("$@")
run() { snakemake --executor cocal --cores 1 --directory "$folder/$1" --configfile "$folder/$1.yaml" -- "${targets[@]}"; }
run base
for study in "$folder"/*.yaml; do
    point=$(basename "$study" .yaml)
    if [ ! -e "$folder/$point" ]; then
        rm -rf "$folder/.$point"
        cp -a "$folder/base" "$folder/.$point"
        mv "$folder/.$point" "$folder/$point"
    fi
    run "$point"
done
