#!/usr/bin/env bash
# One machine's torchrun agent, which starts this machine's ranks of `course train`. One on each machine:
#
#   HEAD=10.0.0.1 HERE=10.0.0.1 MACHINES=2 cluster/agent.sh --steps 1000 --checkpoint /shared/run
#   HEAD=10.0.0.1 HERE=10.0.0.2 MACHINES=2 cluster/agent.sh --steps 1000 --checkpoint /shared/run
#
# HEAD       address of the machine where all agents meet, the same on all
# HERE       address of this machine, as the others reach it; on HEAD itself, the same letters
# MACHINES   how many; LEAST:MOST, as in 1:2, goes on with fewer after one is lost
# RANKS      on this machine (1); gpu: one for each GPU
# INTERFACE  network interface that has HERE, such as eth0 (what gloo and NCCL choose)
# PORT, RUN  where agents meet on HEAD (29400), and a name of the run (course): others on HEAD need others
# RESTARTS   how often ranks start again, from the newest checkpoint, after one has failed (3)
# RENDEZVOUS more of torchrun's --rdzv-conf, such as join_timeout=120
#
# docs/clusters.md has the reason for each setting, and what happens without it.
set -euo pipefail
: "${HEAD:?address of the machine where all agents meet}" "${HERE:?address of this machine}"
: "${MACHINES:?how many machines}"

if [ -n "${INTERFACE:-}" ]; then
    export GLOO_SOCKET_IFNAME=$INTERFACE NCCL_SOCKET_IFNAME=$INTERFACE
fi
# With a store that outlives a restart, a machine that comes back waits for an address that nobody sends.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# Names can have other addresses than HEAD says, so who hosts the rendezvous is not left to a guess.
is_host=$([ "$HERE" = "$HEAD" ] && echo true || echo false)

# exec: signals reach torchrun itself. After SIGTERM it waits until a checkpoint is written, at most 100 s.
exec torchrun --nnodes="$MACHINES" --nproc-per-node="${RANKS:-1}" --max-restarts="${RESTARTS:-3}" \
    --rdzv-backend=c10d --rdzv-id="${RUN:-course}" --rdzv-endpoint="$HEAD:${PORT:-29400}" \
    --rdzv-conf="is_host=$is_host${RENDEZVOUS:+,$RENDEZVOUS}" --local-addr="$HERE" --shutdown-timeout=100 \
    -m course_lib.train "$@"
