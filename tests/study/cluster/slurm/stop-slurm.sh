#!/usr/bin/env bash
# Ends what start-slurm.sh has started, by its pid files, and removes state and configuration. Packages stay.
set -uo pipefail
STATE=${REHEARSAL_SLURM:-/var/tmp/cocal-slurm}
grep -qF "# written by start-slurm.sh" /etc/slurm/slurm.conf 2>/dev/null || exit 0

stop() { # pid file, name of the process
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 0
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] || return 0
  kill "$pid"
  for _ in $(seq 75); do kill -0 "$pid" 2>/dev/null || return 0; sleep 0.2; done
  kill -9 "$pid"
}

# jobs first: daemons that end leave them running
timeout 10 squeue --noheader --format=%i | xargs --no-run-if-empty timeout 10 scancel
for _ in $(seq 30); do [ -z "$(timeout 10 squeue --noheader 2>/dev/null)" ] && break; sleep 1; done
for file in "$STATE"/slurmd-*.pid; do stop "$file" slurmd; done
stop "$STATE/slurmctld.pid" slurmctld
[ -e "$STATE/munged.started" ] && stop /run/munge/munged.pid munged
rm -rf "$STATE" /etc/slurm/slurm.conf /etc/slurm/gres.conf
