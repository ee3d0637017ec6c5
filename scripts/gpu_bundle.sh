#!/usr/bin/env bash
# usage: gpu_bundle.sh [--build DIR] [--small] [-o FILE.tar.gz]
# Makes one archive for a machine with NVIDIA GPUs: binaries that `heddle` of the
# build DIR (default build/release) compiles here, a file of tokens, and
# run_gpu.sh, which runs them there and judges what comes out. That machine needs
# no compiler, no Python and no network. With --small there are tiny models alone,
# for a test without a GPU.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
output="heddle-gpu.tar.gz"
sets="small full"
most=$((60 << 20)) # Bytes of the archive.

while [ $# -gt 0 ]; do
  case $1 in
  --build) build=$2; shift ;;
  --small) sets=small ;;
  -o) output=$2; shift ;;
  *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
  shift
done

heddle=$build/bin/heddle
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/heddle-gpu
mkdir "$bundle"

# config FAMILY SIZES: a config.json of random weights.
config() {
  case $1 in
  gpt2) echo '{"model_type": "gpt2", "activation_function": "gelu_new",
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, '"$2"'}' ;;
  llama) echo '{"model_type": "llama", "hidden_act": "silu",
    "initializer_range": 0.02, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": false, '"$2"'}' ;;
  bert) echo '{"model_type": "bert", "architectures": ["BertForMaskedLM"],
    "hidden_act": "gelu", "initializer_range": 0.02, "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "type_vocab_size": 2, "pad_token_id": 0, '"$2"'}' ;;
  esac
}

# compile SET NAME FAMILY SIZES FLAGS...
compile() {
  local folder=$bundle/$1 name=$2
  config "$3" "$4" >"$work/$name.json"
  "$heddle" compile "$work/$name.json" --init random --seed 7 \
    --config "$work/ds.json" "${@:5}" -o "$folder/$name" >/dev/null
}

# Both sets have the same names. `check` runs every one of them; the others are
# for training: gpt2-short has what a CPU computes in a second, to compare with.
compile_set() {
  local set=$1 gpt2=$2 llama=$3 bert=$4 batch=$5 seq=$6
  local common=(--batch "$batch" --seq "$seq")
  mkdir "$bundle/$set"
  compile "$set" gpt2 gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --target sm_80,sm_90
  compile "$set" gpt2-short gpt2 "$gpt2" --batch "$7" --seq "$8" \
    --precision bf16 --target x86-64,sm_80,sm_90 --march x86-64-v3
  compile "$set" gpt2-fp32 gpt2 "$gpt2" "${common[@]}" --precision fp32 \
    --target sm_80
  compile "$set" llama llama "$llama" "${common[@]}" --precision bf16 \
    --target sm_80
  compile "$set" bert bert "$bert" "${common[@]}" --precision bf16 \
    --target sm_80
  compile "$set" gpt2-data2 gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --target sm_80 --mesh data=2 --zero 2
  compile "$set" gpt2-tensor2 gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --target sm_80 --mesh tensor=2
}

echo '{"optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.01}},
  "gradient_clipping": 1.0}' >"$work/ds.json"
for set in $sets; do
  case $set in
  small)
    compile_set small \
      '"vocab_size": 307, "n_positions": 32, "n_embd": 48, "n_layer": 1, "n_head": 4' \
      '"vocab_size": 307, "max_position_embeddings": 32, "hidden_size": 32,
       "intermediate_size": 44, "num_hidden_layers": 1,
       "num_attention_heads": 4, "num_key_value_heads": 2' \
      '"vocab_size": 307, "max_position_embeddings": 32, "hidden_size": 32,
       "intermediate_size": 44, "num_hidden_layers": 1, "num_attention_heads": 4' \
      2 19 2 19
    ;;
  full)
    compile_set full \
      '"vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_layer": 12, "n_head": 12' \
      '"vocab_size": 32000, "max_position_embeddings": 2048, "hidden_size": 1024,
       "intermediate_size": 2816, "num_hidden_layers": 4,
       "num_attention_heads": 16, "num_key_value_heads": 4' \
      '"vocab_size": 30522, "max_position_embeddings": 512, "hidden_size": 768,
       "intermediate_size": 3072, "num_hidden_layers": 4, "num_attention_heads": 12' \
      8 512 4 64
    ;;
  esac
done

"$heddle" data prepare "$root"/README.md "$root"/docs/*.md --tokenizer bytes \
  -o "$bundle/tokens.bin" >/dev/null 2>&1
cp "$root/scripts/run_gpu.sh" "$bundle/"
cp "$root/LICENSE" "$bundle/"

tar -C "$work" --sort=name --owner=0 --group=0 -cf - heddle-gpu | gzip -9 >"$output"
bytes=$(stat -c %s "$output")
echo "$output: $bytes bytes"
if [ "$bytes" -gt "$most" ]; then
  echo "that is more than $most" >&2
  exit 1
fi
