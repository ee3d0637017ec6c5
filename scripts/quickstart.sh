#!/usr/bin/env bash
# usage: quickstart.sh
# From a fresh Debian 12 to a trained model: installs what is missing, builds the
# compiler, compiles a small GPT over bytes (examples/gpt2-bytes) to a binary,
# trains it on the King James Bible (package bible-kjv), lets it write, and shows
# what the plan holds. Everything it makes is in build/quickstart. Needs root or
# sudo while a package is missing, and no network when none is.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/release
work=build/quickstart
seed=7
planned=1500 # Steps of training;
longest=210 # fewer where they would take more seconds.

title() { printf '\n== %s ==\n' "$1"; }

# Prints a command as the user would type it, and runs it.
run() {
  printf '$'
  printf ' %q' "$@"
  printf '\n'
  "$@"
}

# The entropy of a token file: nats `unigram` or `bigram`.
entropy() {
  heddle data check "$work/bible.val.bin" | awk -v kind="$1" '$1 == kind { print $3 }'
}

compile_model() {
  run heddle compile examples/gpt2-bytes/config.json --init random \
    --seed "$seed" --config "$work/ds_config.json" --seq 128 \
    --precision "$precision" -o "$work/gpt2-bytes"
}

set_steps() {
  sed "s/\"total_num_steps\": [0-9]*/\"total_num_steps\": $1/" \
    examples/ds_configs/quickstart.json >"$work/ds_config.json"
}

title "packages and build"
scripts/install.sh build quickstart
start=$SECONDS
scripts/build.sh "$build" heddle heddle-opt heddle-lsp-server heddle-rt
echo "built in $((SECONDS - start)) s"
export PATH=$PWD/$build/bin:$PATH
start=$SECONDS

title "text"
rm -rf "$work"
mkdir -p "$work"
# Without the numbers of the verses.
bible -f 'gen1:1-rev22:21' </dev/null | cut -d ' ' -f 2- >"$work/bible.txt"
run heddle data prepare "$work/bible.txt" --tokenizer bytes --val-fraction 0.05 \
  -o "$work/bible.bin"

title "compile"
precision=fp32
if grep -qwE 'avx512_bf16|amx_bf16' /proc/cpuinfo; then precision=bf16; fi
steps=$planned
set_steps "$steps"
compile_model
step_time=$("$work/gpt2-bytes" bench --steps 5 --warmup 2 --json |
  grep -oE '"median_s": ?[0-9.e-]+' | grep -oE '[0-9.e-]+$')
while [ "$steps" -gt 75 ] &&
  awk -v t="$step_time" -v n="$steps" -v most="$longest" 'BEGIN { exit !(t * n > most) }'; do
  steps=$((steps / 2))
done
if [ "$steps" != "$planned" ]; then
  echo "a step takes $step_time s here: $steps steps instead of $planned"
  set_steps "$steps"
  compile_model
fi

title "train"
run "$work/gpt2-bytes" train --data "$work/bible.bin" --val "$work/bible.val.bin" \
  --shuffle --steps "$steps" --save "$work/out" --log "$work/log.jsonl" \
  2>&1 | awk '!/^step [0-9]+\// || $2 + 0 == 1 || $2 % 100 == 0 { print; fflush() }'

title "generate"
run "$work/gpt2-bytes" generate --weights "$work/out" --prompt "And God said" \
  --max-new-tokens 400 --temperature 0.8 --seed 1

title "report"
run heddle explain "$work/gpt2-bytes"
grep '"event":"eval"' "$work/log.jsonl" | tail -n 1 |
  grep -oE '"loss":[0-9.]+' | cut -d : -f 2 |
  awk -v unigram="$(entropy unigram)" -v bigram="$(entropy bigram)" -v steps="$steps" '
    function line(name, nats) {
      printf "%-34s %8.4f nats %8.4f bits\n", name, nats, nats / log(2)
    }
    {
      print "\nper byte of the text kept apart:"
      line("entropy of bytes (unigrams)", unigram)
      line("entropy given the byte before", bigram)
      line("loss of the model, " steps " steps", $1)
      exit !($1 < bigram)
    }'
echo "run took $((SECONDS - start)) s, without packages and build"
heddle report "$work/gpt2-bytes" --log "$work/log.jsonl" -o "$work/report.html"
echo "what the plan holds and how the run went, for a browser: $work/report.html"
