#!/usr/bin/env bash
# Checks rooflens on this machine's GPU in under 10 minutes, and prints a table of what it measured last.
#
#   scripts/gpu_check.sh
#
# ROOFLENS_CHECK_PYTHON: an interpreter with torch, transformers and pytest, in place of .venv, which `make` else fills.
# ROOFLENS_CHECK_DEVICE: a device of torch, "cuda" unless given; "cpu" runs a model of two layers, to try the script.
# ROOFLENS_CHECK_OUT: a folder that what was measured is left in, a new one under /tmp unless given.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

device=${ROOFLENS_CHECK_DEVICE:-cuda}
out=${ROOFLENS_CHECK_OUT:-$(mktemp -d /tmp/rooflens-gpu-check.XXXXXX)}
python=${ROOFLENS_CHECK_PYTHON:-.venv/bin/python}
mkdir -p "$out"
if [ -z "${ROOFLENS_CHECK_PYTHON:-}" ]; then
    # CI pins versions; a machine with a GPU keeps the torch that it has, or takes the one that pip chooses.
    make .venv/.ready-audit >"$out/setup.log" 2>&1 || { tail -5 "$out/setup.log"; echo "setup failed"; exit 2; }
fi
export ROOFLENS_CHECK_DEVICE=$device PYTHONPATH=$PWD/src${PYTHONPATH:+:$PYTHONPATH}

rooflens() { "$python" -c 'from rooflens.cli import main; main()' "$@"; }
export -f rooflens
export python

# step NAME SECONDS COMMAND...: runs it within its time; its output goes to NAME.out and NAME.log, its status to steps.txt.
step() {
    local name=$1 seconds=$2 status=0 start=$SECONDS
    shift 2
    echo "-- $name (at most $seconds s)"
    timeout --kill-after=10 "$seconds" bash -c '"$@"' step "$@" >"$out/$name.out" 2>"$out/$name.log" || status=$?
    echo "$name $status $((SECONDS - start))" >>"$out/steps.txt"
    [ "$status" -eq 0 ] || tail -qn 3 "$out/$name.out" "$out/$name.log"
}

: >"$out/steps.txt"
model=llama-3.2-1b sizes=(--prompt 512 --output 64) batches=(1 32) few=()
if [ "$device" = cpu ]; then
    model=$out/config.json sizes=(--prompt 16 --output 4) batches=(1 2) few=(--repeat 2)
    cat >"$model" <<'CONFIG'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256}
CONFIG
fi
part=${ROOFLENS_CHECK_PART:-$("$python" -c 'import sys, torch
print(torch.cuda.get_device_name(sys.argv[1]) if sys.argv[1].startswith("cuda") else "no GPU")' "$device")}
echo "$part" >"$out/part.txt"

step tests 180 "$python" -m pytest -m gpu tests/gpu -rs
step ceilings 90 rooflens ceilings --device "$device" --fresh --toml "$out/measured.toml"
for batch in "${batches[@]}"; do
    step "profile-$batch" 110 rooflens profile "$model" --random-weights --device "$device" --dtype bf16 "${sizes[@]}" \
        ${few[@]+"${few[@]}"} --batch "$batch" --json
done
for batch in "${batches[@]}"; do
    step "predict-$batch" 20 rooflens predict "$model" --gpu "$part" --precision bf16 "${sizes[@]}" --batch "$batch" --json
done

echo
echo "Everything is in $out"
"$python" scripts/gpu_table.py "$out"
