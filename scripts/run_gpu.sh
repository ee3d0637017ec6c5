#!/usr/bin/env bash
# usage: run_gpu.sh [--small] [--gpus N] [--stage NAME]... [--limit SECONDS] [--sample TERMS] [--out DIR] [--unpack]
# Runs what gpu_bundle.sh packed on this machine's NVIDIA GPUs, in stages of at
# most nine minutes (--limit: another time; serve-check and decode have two and six
# at most), and judges the numbers:
#   info         GPU, driver and libraries
#   check        every kernel of every model against a plain one
#   serve-check  small models that serve: logits and texts beside the CPU's
#   decode       LLaMA 8B and 1.1B, GPT-2 XL in bf16, int8, int4: tokens per second
#   train        GPT-2: generated and library products, with and without graphs
#   cpu          GPT-2 with small batches: losses beside the CPU's, in fp32 and bf16
#   ranks        two, four and eight ranks: losses beside those of one
#   kill         a rank is killed: the other one ends within ten seconds
#   kernels      times per kernel
# Needs bash, awk, sed, coreutils, diffutils and the driver. Writes results.json and results.txt to DIR
# (default: results), and exits with 1 when a number is wrong. What could not be
# measured is listed as such. --small: tiny models and three steps. --sample is
# that of `check`, for emulations of GPUs. Two ranks share a GPU where there is
# only one. --unpack puts the binaries together, and ends.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
models=$here/full
contexts=128,2048 gpt2_contexts=128,896 decoded=20 serve_limit=120 decode_limit=360
steps=200 few=20 fewest=10 limit=540 sample=0 gpus='' out=results stages='' unpack=
while [ $# -gt 0 ]; do
  case $1 in
  --small)
    models=$here/small steps=3 few=3 fewest=3
    contexts=8,40 gpt2_contexts=8,40 decoded=2 serve_limit=$((1 << 30)) decode_limit=$((1 << 30))
    ;;
  --gpus) gpus=$2; shift ;;
  --stage) stages="$stages $2"; shift ;;
  --limit) limit=$2; shift ;;
  --sample) sample=$2; shift ;;
  --out) out=$2; shift ;;
  --unpack) unpack=1 ;;
  *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
  shift
done

# What the binaries have in common is packed once: all but the ELF header of
# their first bytes.
for part in "$models"/*.part "$here"/kernels/*.part "$here"/serving/*.part; do
  binary=${part%.part}
  [ ! -e "$binary" ] || continue
  { head -c 64 "$part" && tail -c +65 "$here/runtime" && tail -c +65 "$part"; } >"$binary.new" &&
    chmod +x "$binary.new" && mv "$binary.new" "$binary" || exit 2
done
[ -z "$unpack" ] || exit 0

stages=${stages:-info check serve-check decode train cpu ranks kill kernels}
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
way=
kernel_times=

# row STAGE WHAT VERDICT DETAIL: one line of the table. The verdict is ok, wrong
# or "not measured".
row() {
  printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4//[$'\t\n\\"']/ }" >>"$rows"
  printf '%-11s %-28s %-12s %s\n' "$1" "$2" "$3" "$4"
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

# losses LOG: a step, its loss and its gradient's norm a line.
losses() {
  sed -n 's/^{"event":"step","step":\([0-9]*\),"loss":\([^,}]*\),"grad_norm":\([^,}]*\).*/\1 \2 \3/p' "$1"
}

# compare LOG LOG LAST: the largest difference of losses, or with LAST 3 of norms
# too, relative, and of how many steps; nothing when they have no step in common or
# one is no number.
compare() {
  { losses "$1"; echo; losses "$2"; } | awk -v last="$3" '
    NF == 0 { second = 1; next }
    { for (i = 2; i <= last; i++) if ($i !~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/) bad = 1 }
    !second { for (i = 2; i <= last; i++) first[$1, i] = $i; next }
    ($1, 2) in first {
      n++
      for (i = 2; i <= last; i++) {
        size = first[$1, i]; d = $i - size
        if (d < 0) d = -d
        if (size < 0) size = -size
        if (size > 0) d /= size
        if (d > worst) worst = d
      }
    }
    END { if (n && !bad) printf "%.3g %d", worst, n }'
}

# judge STAGE WHAT LOG LOG BOUND: whether losses are as far apart as they may be. In
# bf16 norms may be farther apart; where the bound is one of fp32, they count.
judge() {
  local worst count last=2 what=losses
  [ "$5" != 1e-5 ] || { last=3; what="losses and norms"; }
  read -r worst count <<<"$(compare "$3" "$4" $last)"
  if [ -n "$worst" ] && awk "BEGIN { exit !($worst <= $5) }"; then
    row "$1" "$2" ok "$what of $count steps differ by $worst at most, may by $5"
  else
    row "$1" "$2" wrong "$what differ by ${worst:-something that is no number}, may by $5"
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

# check MODEL: its kernels. On a GPU that is no emulation a minute must do.
check() {
  local model=${1##*/} status said seconds
  run "check-$model" "$1" check --sample "$sample"
  status=$?
  if [ $status != 0 ]; then
    failed check "$model" $status "check-$model"
    return
  fi
  said=$(tail -n1 "$out/check-$model.out")
  seconds=$(sed -n 's/.*found in \([0-9.]*\) s$/\1/p' <<<"$said")
  if grep -q '^Emulated' "$out/check-$model.out" ||
    awk "BEGIN { exit !(${seconds:-61} <= 60) }"; then
    row check "$model" ok "$said"
  else
    row check "$model" wrong "$said, may take 60 s"
  fi
}

stage_check() {
  local model
  for model in gpt2 gpt2-fp32 llama bert gpt2-data2 gpt2-tensor2 gpt2-pipe2 \
    gpt2-ranks4 gpt2-ranks8; do
    check "$models/$model"
  done
  for model in "$here"/kernels/*.part; do check "${model%.part}"; done
}

stage_train() {
  local status
  train gpt2 gpt2 "$steps" --device cuda
  status=$?
  if [ $status != 0 ]; then
    failed train "gpt2, $steps steps" $status gpt2
    return
  fi
  row train "gpt2, $steps steps" ok "last loss $(losses "$out/gpt2.jsonl" | tail -n1 | cut -d' ' -f2)"
  train no-graph gpt2 "$steps" --device cuda --no-graph
  status=$?
  if [ $status = 0 ]; then
    judge train "without graphs" "$out/gpt2.jsonl" "$out/no-graph.jsonl" 0
  else
    failed train "without graphs" $status no-graph
  fi
  train generated gpt2 "$steps" --device cuda --gemm generated
  status=$?
  if [ $status = 0 ]; then
    judge train "generated products" "$out/gpt2.jsonl" "$out/generated.jsonl" 0.02
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

# beside_cpu BINARY STEPS BOUND FLAGS...: losses on the GPU and on the CPU.
beside_cpu() {
  local binary=$1 count=$2 bound=$3 status
  shift 3
  local name=$binary${2:+-$2}
  train "$name" "$binary" "$count" --device cuda "$@"
  status=$?
  if [ $status != 0 ]; then
    failed cpu "$name" $status "$name"
    return
  fi
  if ! losses "$out/$binary-cpu.jsonl" 2>/dev/null | grep -q .; then
    train "$binary-cpu" "$binary" "$count" --device cpu
    status=$?
  fi
  if losses "$out/$binary-cpu.jsonl" 2>/dev/null | grep -q .; then
    judge cpu "$name" "$out/$name.jsonl" "$out/$binary-cpu.jsonl" "$bound"
  else
    failed cpu "$name" $status "$binary-cpu"
  fi
}

# In fp32 a CPU and a GPU differ by the order of sums alone. A CPU needs long for a
# step: in bf16 it goes as far as the stage's time lets it.
stage_cpu() {
  rm -f "$out"/*-cpu.jsonl
  beside_cpu gpt2-short-fp32 "$fewest" 1e-5
  beside_cpu gpt2-short-fp32 "$fewest" 1e-5 --gemm generated
  beside_cpu gpt2-short "$steps" 0.02
}

# launch NAME BINARY RANKS WAY FLAGS...: ranks over TCP. Their processes are in
# `pids`. WAY: how they exchange. `own`: by NCCL, each with a GPU of its own. With
# one GPU, `nccl`: by NCCL, which takes it for one on each of several machines;
# `host`: through the host.
launch() {
  local name=$1 binary=$2 world=$3 way=$4 rank port=$((20000 + RANDOM % 20000))
  local share=(--share-gpu) machine=()
  shift 4
  [ "$way" != own ] || share=()
  rm -f "$out/$name.jsonl"
  pids=()
  for ((rank = 0; rank < world; ++rank)); do
    [ "$way" != nccl ] || machine=("NCCL_HOSTID=heddle-$rank")
    env "${machine[@]}" RANK=$rank WORLD_SIZE="$world" LOCAL_RANK=$rank \
      MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "$models/$binary" train \
      --data "$tokens" --log "$out/$name.jsonl" --progress none "${share[@]}" "$@" \
      >"$out/$name.$rank.out" 2>"$out/$name.$rank.err" &
    pids+=($!)
  done
}

# has_ended PID: it runs no more, or waits to be reaped. Asked once more, since the
# shell may reap it after the first question: then it has no status.
has_ended() {
  ! kill -0 "$1" 2>/dev/null || grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null ||
    ! kill -0 "$1" 2>/dev/null
}

# finish [SECONDS]: waits for the ranks until the stage's time, or so long, is over.
finish() {
  local pid status=0 late= until=$((SECONDS + ${1:-limit}))
  for pid in "${pids[@]}"; do
    while ! has_ended "$pid" && ! is_over && [ $SECONDS -lt $until ]; do sleep 0.2; done
    # The others then end by themselves, with an error that says nothing.
    has_ended "$pid" || { late=137; kill -9 "$pid"; }
    wait "$pid" || status=$?
  done
  return ${late:-$status}
}

# find_way: how two ranks exchange here, as `launch` calls it, is in `way`. Whether
# NCCL takes one GPU for two is tried with a step.
find_way() {
  [ -z "$way" ] || return
  way=own
  [ "$gpus" -lt 2 ] || return
  way=nccl
  launch shared gpt2-data2 2 nccl --steps 1
  finish 90 || way=host
}

# tell_way STAGE: what is not measured where ranks share a GPU.
tell_way() {
  case $way in
  nccl) row "$1" "NCCL between GPUs" "not measured" "there is one GPU: NCCL took it for one on each of two machines" ;;
  host) row "$1" NCCL "not measured" "there is one GPU, which the ranks shared: they exchanged through the host ($(why shared.0))" ;;
  esac
}

# ranks MODEL RANKS REFERENCE BOUND: its losses beside those of one rank, which
# trained before, or do so now.
ranks() {
  local model=$1 world=$2 reference=$3 status
  if [ "$gpus" -lt "$world" ] && [ "$world" -gt 2 ]; then
    row ranks "$model" "not measured" "it needs $world GPUs, there are $gpus"
    return
  fi
  if is_over; then
    row ranks "$model" "not measured" "ran out of time"
    return
  fi
  losses "$out/$reference.jsonl" 2>/dev/null | grep -q . ||
    train "$reference" "$reference" "$few" --device cuda
  launch "$model" "$model" "$world" "$way" --steps "$few"
  finish
  status=$?
  if [ $status = 0 ]; then
    judge ranks "$model" "$out/$reference.jsonl" "$out/$model.jsonl" "$4"
  else
    failed ranks "$model" $status "$model.0"
  fi
}

# Those in bf16 differ by its roundings, those in fp32 by the order of sums.
stage_ranks() {
  find_way
  ranks gpt2-data2 2 gpt2 0.02
  ranks gpt2-tensor2 2 gpt2 0.02
  ranks gpt2-pipe2 2 gpt2-fp32 1e-5
  ranks gpt2-ranks4 4 gpt2-fp32 1e-5
  ranks gpt2-ranks8 8 gpt2-fp32 1e-5
  tell_way ranks
}

stage_kill() {
  local killed status waited=0
  find_way
  launch killed gpt2-data2 2 "$way" --steps 1000000
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
  has_ended "${pids[0]}" || kill -9 "${pids[0]}" 2>/dev/null
  wait "${pids[0]}"
  status=$?
  { wait "${pids[1]}"; } 2>/dev/null
  if [ $waited -le 10 ] && [ $status = 5 ] && grep -q 'error\[H042' "$out/killed.0.err"; then
    row kill "rank 1 of 2" ok "the other one ended after $waited s: $(why killed.0)"
  else
    row kill "rank 1 of 2" wrong "the other one ended after $waited s with $status: $(why killed.0)"
  fi
  tell_way kill
}

# floats FILE: the numbers of the only tensor of a file, one a line.
floats() {
  local header
  header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
  od -A n -v -t f4 -w4 -j $((8 + header)) "$1"
}

# farthest FILE FILE: the largest difference of their numbers, relative to the
# largest number; nothing when they have no number, not equally many or one is none.
farthest() {
  paste <(floats "$1") <(floats "$2") | awk '
    NF != 2 || /n/ { bad = 1 }
    {
      d = $1 - $2; size = $1
      if (d < 0) d = -d
      if (size < 0) size = -size
      if (d > worst) worst = d
      if (size > most) most = size
    }
    END { if (most > 0 && !bad) printf "%.3g", worst / most }'
}

# serving BINARY BOUND [TEXTS]: logits on the GPU, by a prefill and token by token, and
# on the CPU; with TEXTS also the 48 most likely next tokens.
serving() {
  local model=${1##*/} worst status device said
  local ids=5,17,2,301,44,44,9,260,31,8,77,150,3,290,12,61,7,98,222,19,35,35,1,180,66
  local name=serving-$model
  for device in cpu cuda; do
    rm -f "$out/$name.$device"
    run "$name" "$1" logits --device $device --prompt-ids $ids -o "$out/$name.$device" &&
      run "$name" "$1" generate --device $device --prompt-ids $ids --max-new-tokens 48
    status=$?
    if [ $status != 0 ]; then
      failed serve-check "$model" $status "$name"
      return
    fi
    cp "$out/$name.out" "$out/$name.$device.txt"
  done
  rm -f "$out/$name.decode"
  run "$name" "$1" logits --device cuda --decode --prompt-ids $ids -o "$out/$name.decode"
  status=$?
  if [ $status != 0 ]; then
    failed serve-check "$model" $status "$name"
    return
  fi
  worst=$(farthest "$out/$name.cpu" "$out/$name.cuda")
  said="logits differ by ${worst:-something that is no number}, may by $2"
  if [ -z "$worst" ] || ! awk "BEGIN { exit !($worst <= $2) }"; then
    row serve-check "$model" wrong "$said"
  elif ! cmp -s "$out/$name.cuda" "$out/$name.decode"; then
    row serve-check "$model" wrong "token by token there are other bits: $(why "$name")"
  elif [ -n "${3:-}" ] && ! cmp -s "$out/$name.cpu.txt" "$out/$name.cuda.txt"; then
    row serve-check "$model" wrong "$said; texts differ"
  else
    row serve-check "$model" ok "$said${3:+; 48 tokens are the same}"
  fi
}

stage_serve-check() {
  local part limit=$((limit < serve_limit ? limit : serve_limit))
  for part in "$here"/serving/*.part; do
    case $part in
    *-fp32.part) serving "${part%.part}" 1e-4 texts ;;
    *-bf16.part) serving "${part%.part}" 0.05 ;;
    *-fp16.part) serving "${part%.part}" 0.01 ;;
    *-cache.part) serving "${part%.part}" 0.02 ;;
    *) serving "${part%.part}" 1e-3 texts ;;
    esac
  done
}

# decode BINARY CONTEXTS: a line for each context and number of texts that was
# measured, even if the time did not suffice for all.
decode() {
  local name=decode-$1 status
  # An archive of small models has some of them.
  [ -e "$models/$1" ] || return
  run "$name" "$models/$1" bench --device cuda --decode --batch 1,8,32 --context "$2" \
    --tokens "$decoded" --json
  status=$?
  sed -n 's/.*"batch":\([0-9]*\),"context":\([0-9]*\),.*"tokens_per_s":\([^,]*\),.*"fraction_of_stream":\([^,]*\),.*"first_token_s":\([^,]*\),.*/\1 \2 \3 \4 \5/p' "$out/$name.out" |
    while read -r batch context rate share first; do
      row decode "$1, $batch x $context" ok "$(awk "BEGIN {
        printf \"%.1f tokens/s, %.0f %% of a copy's rate, first token after %.3f s\", $rate, 100 * $share, $first }")"
    done
  [ $status = 0 ] || failed decode "$1" $status "$name"
}

# The most important figures come first.
stage_decode() {
  local model limit=$((limit < decode_limit ? limit : decode_limit))
  for model in llama-8b-bf16 llama-8b-int4 llama-8b-int8; do decode $model $contexts; done
  for model in bf16 int4 int8; do decode gpt2-xl-$model $gpt2_contexts; done
  for model in bf16 int4 int8; do decode llama-1b-$model $contexts; done
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
  awk -F '\t' '{ printf "%-11s %-28s %-12s %s\n", $1, $2, $3, $4 }' "$rows" >"$out/results.txt"
}

for stage in $stages; do
  begin=$SECONDS
  "stage_$stage"
  write_results
done
echo "results: $out/results.json"
awk -F '\t' '$3 == "wrong" { bad = 1 } END { exit bad }' "$rows"
