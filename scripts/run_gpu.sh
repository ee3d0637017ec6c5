#!/usr/bin/env bash
# usage: run_gpu.sh [--small] [--gpus N] [--stage NAME]... [--limit SECONDS] [--sample TERMS] [--out DIR]
# Runs what gpu_bundle.sh packed on this machine's NVIDIA GPUs, in stages of at
# most nine minutes (--limit: another time), and judges the numbers:
#   info     GPU, driver and libraries
#   check    every kernel of every model against a plain one
#   train    GPT-2: generated and library products, with and without graphs
#   cpu      GPT-2 with small batches: losses beside the CPU's
#   ranks    two ranks: losses beside those of one
#   kill     a rank is killed: the other one ends within ten seconds
#   kernels  times per kernel
# Needs bash, awk and the driver. Writes results.json and results.txt to DIR
# (default: results), and exits with 1 when a number is wrong. What could not be
# measured is listed as such. --small: tiny models and three steps. --sample is
# that of `check`, for emulations of GPUs. Two ranks share a GPU where there is
# only one.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
models=$here/full
steps=200 few=20 limit=540 sample=0 gpus='' out=results stages=''
while [ $# -gt 0 ]; do
  case $1 in
  --small) models=$here/small steps=3 few=3 ;;
  --gpus) gpus=$2; shift ;;
  --stage) stages="$stages $2"; shift ;;
  --limit) limit=$2; shift ;;
  --sample) sample=$2; shift ;;
  --out) out=$2; shift ;;
  *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
  shift
done
stages=${stages:-info check train cpu ranks kill kernels}
tokens=$here/tokens.bin
mkdir -p "$out"
out=$(cd "$out" && pwd)
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
if [ -z "$gpus" ]; then
  gpus=$(nvidia-smi -L 2>/dev/null | wc -l)
  [ "$gpus" -gt 0 ] || gpus=1
fi
begin=0
kernel_times=

# row STAGE WHAT VERDICT DETAIL: one line of the table. The verdict is ok, wrong
# or "not measured".
row() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4//[$'\t\n\\"']/ }" >>"$rows"
  printf '%-8s %-28s %-12s %s\n' "$1" "$2" "$3" "$4"
}

# is_over: the stage has had its time.
is_over() { [ $((SECONDS - begin)) -ge "$limit" ]; }

# run NAME COMMAND...: within what is left of the stage's time. The output goes to
# NAME.out and NAME.err.
run() {
  local name=$1 left=$((limit - (SECONDS - begin)))
  shift
  : >"$out/$name.out" 2>"$out/$name.err"
  [ "$left" -gt 0 ] || return 124
  timeout -k 5 "$left" "$@" >"$out/$name.out" 2>"$out/$name.err"
}

# why NAME: the end of what it said on stderr.
why() { grep -m1 error "$out/$1.err" || tail -n1 "$out/$1.err"; }

# failed STAGE WHAT STATUS NAME: the line of a command that failed. One that the
# end of the stage's time ended was not measured.
failed() {
  if is_over && { [ "$3" = 124 ] || [ "$3" = 137 ]; }; then
    row "$1" "$2" "not measured" "ran out of time"
  else
    row "$1" "$2" wrong "exit status $3: $(why "$4")"
  fi
}

# losses LOG: a step and its loss a line.
losses() {
  sed -n 's/^{"event":"step","step":\([0-9]*\),"loss":\([^,}]*\).*/\1 \2/p' "$1"
}

# compare LOG LOG: the largest difference of losses, relative, and of how many
# steps; nothing when they have no step in common or a loss is no number.
compare() {
  { losses "$1"; echo; losses "$2"; } | awk '
    NF == 0 { second = 1; next }
    $2 !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ { bad = 1 }
    !second { first[$1] = $2; next }
    $1 in first {
      n++; d = $2 - first[$1]; if (d < 0) d = -d
      size = first[$1] < 0 ? -first[$1] : first[$1]
      if (size > 0) d /= size
      if (d > worst) worst = d
    }
    END { if (n && !bad) printf "%.3g %d", worst, n }'
}

# judge STAGE WHAT LOG LOG BOUND: whether losses are as far apart as they may be.
judge() {
  local worst count
  read -r worst count <<<"$(compare "$3" "$4")"
  if [ -n "$worst" ] && awk "BEGIN { exit !($worst <= $5) }"; then
    row "$1" "$2" ok "losses of $count steps differ by $worst at most, may by $5"
  else
    row "$1" "$2" wrong "losses differ by ${worst:-something that is no number}, may by $5"
  fi
}

# train NAME BINARY STEPS FLAGS...
train() {
  local name=$1 binary=$2 count=$3
  shift 3
  rm -f "$out/$name.jsonl"
  run "$name" "$models/$binary" train --data "$tokens" --steps "$count" \
    --log "$out/$name.jsonl" --progress none "$@"
}

stage_info() {
  local gpu status library found verdict=ok
  run info "$models/gpt2-fp32" info
  status=$?
  if [ $status != 0 ]; then
    failed info gpu $status info
    return
  fi
  gpu=$(sed -n 's/^gpu  *//p' "$out/info.out")
  case $gpu in
  '' | none:*) verdict=wrong ;;
  esac
  row info gpu $verdict "${gpu:-$(why info)}"
  [ $verdict = ok ] || return
  row info driver ok "$(sed -n 's/^driver  *//p' "$out/info.out")"
  for library in cublaslt nccl; do
    found=$(sed -n "s/^$library  *//p" "$out/info.out")
    case $found in
    '' | none:*) row info $library "not measured" "$found" ;;
    *) row info $library ok "$found" ;;
    esac
  done
}

stage_check() {
  local model status
  for model in gpt2 gpt2-fp32 llama bert gpt2-data2 gpt2-tensor2; do
    run "check-$model" "$models/$model" check --sample "$sample"
    status=$?
    if [ $status = 0 ]; then
      row check "$model" ok "$(tail -n1 "$out/check-$model.out")"
    else
      failed check "$model" $status "check-$model"
    fi
  done
}

stage_train() {
  local status
  train gpu gpt2 "$steps" --device cuda
  status=$?
  if [ $status != 0 ]; then
    failed train "gpt2, $steps steps" $status gpu
    return
  fi
  row train "gpt2, $steps steps" ok "last loss $(losses "$out/gpu.jsonl" | tail -n1 | cut -d' ' -f2)"
  train no-graph gpt2 "$steps" --device cuda --no-graph
  status=$?
  if [ $status = 0 ]; then
    judge train "without graphs" "$out/gpu.jsonl" "$out/no-graph.jsonl" 0
  else
    failed train "without graphs" $status no-graph
  fi
  train generated gpt2 "$steps" --device cuda --gemm generated
  status=$?
  if [ $status = 0 ]; then
    judge train "generated products" "$out/gpu.jsonl" "$out/generated.jsonl" 0.02
  else
    failed train "generated products" $status generated
  fi
  train library gpt2 "$steps" --device cuda --gemm library
  status=$?
  if [ $status = 0 ]; then
    judge train "library products" "$out/generated.jsonl" "$out/library.jsonl" 0.02
  elif grep -q H0450 "$out/library.err"; then
    row train "library products" "not measured" "no cuBLASLt is found"
  else
    failed train "library products" $status library
  fi
}

# A CPU needs long for a step: it goes as far as the stage's time lets it.
stage_cpu() {
  local status
  train short gpt2-short "$steps" --device cuda
  status=$?
  if [ $status != 0 ]; then
    failed cpu "gpt2-short, $steps steps" $status short
    return
  fi
  train cpu gpt2-short "$steps" --device cpu
  status=$?
  if losses "$out/cpu.jsonl" 2>/dev/null | grep -q .; then
    judge cpu "beside the CPU" "$out/short.jsonl" "$out/cpu.jsonl" 0.02
  else
    failed cpu "beside the CPU" $status cpu
  fi
}

# launch NAME BINARY FLAGS...: two ranks over TCP. Their processes are in `pids`.
launch() {
  local name=$1 binary=$2 rank port=$((20000 + RANDOM % 20000))
  local share=
  shift 2
  [ "$gpus" -ge 2 ] || share=--share-gpu
  rm -f "$out/$name.jsonl"
  pids=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 \
      MASTER_PORT=$port "$models/$binary" train --data "$tokens" \
      --log "$out/$name.jsonl" --progress none $share "$@" \
      >"$out/$name.$rank.out" 2>"$out/$name.$rank.err" &
    pids+=($!)
  done
}

# has_ended PID: it runs no more, or waits to be reaped.
has_ended() {
  ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

# finish: waits for the ranks until the stage's time is over.
finish() {
  local pid status=0 late=
  for pid in "${pids[@]}"; do
    while ! has_ended "$pid" && ! is_over; do sleep 0.2; done
    # The other rank then ends by itself, with an error that says nothing.
    has_ended "$pid" || { late=137; kill -9 "$pid"; }
    wait "$pid" || status=$?
  done
  return ${late:-$status}
}

stage_ranks() {
  local model status reference=$out/gpu.jsonl
  if ! losses "$reference" 2>/dev/null | grep -q .; then
    train gpu gpt2 "$few" --device cuda
  fi
  for model in gpt2-data2 gpt2-tensor2; do
    launch "$model" "$model" --steps "$few"
    finish
    status=$?
    if [ $status = 0 ]; then
      judge ranks "$model" "$reference" "$out/$model.jsonl" 0.02
    else
      failed ranks "$model" $status "$model.0"
    fi
  done
  [ "$gpus" -ge 2 ] || row ranks NCCL "not measured" "there is one GPU, which the ranks shared: they exchanged through the host"
}

stage_kill() {
  local killed status waited=0
  launch killed gpt2-data2 --steps 1000000
  while ! losses "$out/killed.jsonl" 2>/dev/null | grep -q . &&
    ! has_ended "${pids[0]}" && ! is_over; do sleep 0.2; done
  if ! losses "$out/killed.jsonl" 2>/dev/null | grep -q . && is_over; then
    finish
    failed kill "rank 1 of 2" 137 killed.0
    return
  fi
  killed=$SECONDS
  kill -9 "${pids[1]}" 2>/dev/null
  while ! has_ended "${pids[0]}" && [ $((SECONDS - killed)) -lt 30 ]; do sleep 0.1; done
  waited=$((SECONDS - killed))
  has_ended "${pids[0]}" || kill -9 "${pids[0]}"
  wait "${pids[0]}"
  status=$?
  { wait "${pids[1]}"; } 2>/dev/null
  if [ $waited -le 10 ] && [ $status = 5 ] && grep -q 'error\[H042' "$out/killed.0.err"; then
    row kill "rank 1 of 2" ok "the other one ended after $waited s: $(why killed.0)"
  else
    row kill "rank 1 of 2" wrong "the other one ended after $waited s with $status: $(why killed.0)"
  fi
}

stage_kernels() {
  local status measure=("$models/gpt2" bench --device cuda --kernels --steps 3 --warmup 1)
  run kernels "${measure[@]}" && run kernels-json "${measure[@]}" --json
  status=$?
  if [ $status = 0 ]; then
    row kernels gpt2 ok "$(head -n1 "$out/kernels.out")"
    kernel_times=$(sed -n 's/.*"kernels":\(\[.*\]\)}$/\1/p' "$out/kernels-json.out")
  else
    failed kernels gpt2 $status kernels
  fi
}

write_results() {
  awk -F '\t' 'BEGIN { printf "{\"results\": [" }
    {
      if (NR > 1) printf ","
      printf "\n  {\"stage\": \"%s\", \"what\": \"%s\", ", $1, $2
      printf "\"verdict\": \"%s\", \"detail\": \"%s\"}", $3, $4
      count[$3]++
    }
    END {
      printf "\n ],\n \"ok\": %d, \"wrong\": %d, ", count["ok"], count["wrong"]
      printf "\"not_measured\": %d,\n", count["not measured"]
    }' "$rows" >"$out/results.json"
  printf ' "kernels": %s\n}\n' "${kernel_times:-[]}" >>"$out/results.json"
  awk -F '\t' '{ printf "%-8s %-28s %-12s %s\n", $1, $2, $3, $4 }' "$rows" >"$out/results.txt"
}

for stage in $stages; do
  begin=$SECONDS
  "stage_$stage"
  write_results
done
echo "results: $out/results.json"
awk -F '\t' '$3 == "wrong" { bad = 1 } END { exit bad }' "$rows"
