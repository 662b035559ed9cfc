#!/bin/sh
# All benchmarks that are worth a GPU, in under 5 minutes, into one page that names the device.
# From the root of the repository, in an environment with requirements.txt and a jax for the GPU.
set -eu
python -c 'import jax, sys; sys.exit(jax.default_backend() != "gpu")' ||
  { echo "gpu.sh: JAX finds no GPU here; install jax for it: pip install 'jax[cuda13]'" >&2; exit 2; }
exec python -m benchmarks --gpu --write="${1:-results/benchmarks_gpu.md}"
