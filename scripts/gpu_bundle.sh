#!/usr/bin/env bash
# usage: gpu_bundle.sh [--build DIR] [--small] [-o FILE.tar.xz]
# Makes one archive for a machine with NVIDIA GPUs: binaries that `heddle` of the
# build DIR (default build/release) compiles here, a file of tokens, and
# run_gpu.sh, which runs them there and judges what comes out. That machine needs
# no compiler, no Python and no network. With --small there are tiny models alone,
# with code for sm_90 alone, for a test without a GPU. Every binary has the same
# runtime: it is packed once, and run_gpu.sh puts the binaries together again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/release
output="heddle-gpu.tar.xz"
sets="small full"
targets=sm_80,sm_90
level=6 # Of compression.
most=$((60 << 20)) # Bytes of the archive.

while [ $# -gt 0 ]; do
  case $1 in
  --build) build=$2; shift ;;
  --small) sets=small targets=sm_90 level=0 ;;
  -o) output=$2; shift ;;
  *) sed -n '2p' "$0" | cut -c3-; exit 2 ;;
  esac
  shift
done

heddle=$build/bin/heddle
runtime=$build/bin/heddle-rt
header=64 # Bytes of an ELF header, which alone differs in a binary's runtime.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/heddle-gpu
mkdir "$bundle"

# config FAMILY SIZES: a config.json of random weights.
config() {
  local spread=initializer_range
  [ "$1" != opt ] || spread=init_std
  local gated='"hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": false,'
  case $1 in
  gpt2) echo '{"model_type": "gpt2", "activation_function": "gelu_new",
    "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,' ;;
  llama | mistral | qwen2 | qwen3) echo '{"model_type": "'"$1"'", '"$gated" ;;
  bert) echo '{"model_type": "bert", "architectures": ["BertForMaskedLM"],
    "hidden_act": "gelu", "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
    "type_vocab_size": 2, "pad_token_id": 0,' ;;
  gemma2) echo '{"model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh",
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": true, "attention_bias": false,' ;;
  gpt_neo) echo '{"model_type": "gpt_neo", "activation_function": "gelu_new",' ;;
  gpt_neox) echo '{"model_type": "gpt_neox", "hidden_act": "gelu", "rotary_pct": 0.5,
    "rotary_emb_base": 10000, "use_parallel_residual": true,
    "tie_word_embeddings": false,' ;;
  opt) echo '{"model_type": "opt", "activation_function": "relu",
    "do_layer_norm_before": true,' ;;
  esac
  echo '"'$spread'": '"$initializer, $2"'}'
}
initializer=0.02

# pack SET NAME FAMILY SIZES FLAGS...: the binary without the runtime.
pack() {
  local part=$bundle/$1/$2.part binary=$work/$2
  config "$3" "$4" >"$binary.json"
  "$heddle" compile "$binary.json" --init random --seed 7 \
    --target "$targets" "${@:5}" -o "$binary" >/dev/null
  cmp -s <(tail -c +$((header + 1)) "$runtime") \
    <(head -c "$(stat -c %s "$runtime")" "$binary" | tail -c +$((header + 1))) ||
    { echo "$2 does not begin with $runtime" >&2; exit 1; }
  { head -c "$header" "$binary"; tail -c +$(($(stat -c %s "$runtime") + 1)) "$binary"; } >"$part"
  rm "$binary"
}

# compile SET NAME FAMILY SIZES FLAGS...: a binary that trains.
compile() { pack "${@:1:4}" --config "$work/ds.json" "${@:5}"; }

# Both sets have the same names. `check` runs all that have no code for a CPU; the
# others have what a CPU computes in seconds, to compare with.
compile_set() {
  local set=$1 gpt2=$2 llama=$3 bert=$4 batch=$5 seq=$6
  local common=(--batch "$batch" --seq "$seq")
  local short=(--batch "$7" --seq "$8" --march x86-64-v3 --threads 16)
  mkdir "$bundle/$set"
  compile "$set" gpt2 gpt2 "$gpt2" "${common[@]}" --precision bf16
  compile "$set" gpt2-fp32 gpt2 "$gpt2" "${common[@]}" --precision fp32
  targets=x86-64,$targets compile "$set" gpt2-short gpt2 "$gpt2" "${short[@]}" --precision bf16
  targets=x86-64,$targets compile "$set" gpt2-short-fp32 gpt2 "$gpt2" "${short[@]}" --precision fp32
  compile "$set" llama llama "$llama" "${common[@]}" --precision bf16
  compile "$set" bert bert "$bert" "${common[@]}" --precision bf16
  compile "$set" gpt2-data2 gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --mesh data=2 --zero 2
  compile "$set" gpt2-tensor2 gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --mesh tensor=2
  compile "$set" gpt2-pipe2 gpt2 "$gpt2" "${common[@]}" --precision fp32 \
    --mesh pipe=2 --accumulate 2
  compile "$set" gpt2-ranks4 gpt2 "$gpt2" "${common[@]}" --precision fp32 \
    --mesh data=2,tensor=2 --zero 3
  compile "$set" gpt2-ranks8 gpt2 "$gpt2" "${common[@]}" --precision fp32 \
    --mesh data=2,tensor=2,pipe=2 --accumulate 2 --zero 1
}

# Small models for `check` alone, with the kernels that the others do not have:
# windows and soft caps, other optimizers, parts of a sequence, chunks of tokens.
compile_kernels() {
  local gpt2='"vocab_size": 307, "n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 4'
  local llama='"vocab_size": 307, "max_position_embeddings": 32, "hidden_size": 48,
    "intermediate_size": 44, "num_hidden_layers": 2, "head_dim": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2'
  local gemma2="$llama"', "sliding_window": 8, "query_pre_attn_scalar": 16,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0'
  local common=(--batch 4 --seq 19) even=(--batch 4 --seq 20)
  mkdir "$bundle/kernels"
  compile kernels gemma2 gemma2 "$gemma2" "${common[@]}" --precision bf16
  compile kernels gemma2-fp16 gemma2 "$gemma2" "${common[@]}" --precision fp16
  compile kernels gemma2-fp32 gemma2 "$gemma2" "${common[@]}" --precision fp32
  compile kernels llama-fp32 llama "$llama" "${common[@]}" --precision fp32
  compile kernels gpt2-fp16 gpt2 "$gpt2" "${common[@]}" --precision fp16
  compile kernels gpt2-lamb gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --optimizer Lamb --mesh data=2 --zero 3
  compile kernels gpt2-lion gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --optimizer Lion --accumulate 2
  compile kernels gpt2-ring gpt2 "$gpt2" "${even[@]}" --precision bf16 \
    --mesh seq=2 --context ring
  compile kernels gpt2-ulysses gpt2 "$gpt2" "${even[@]}" --precision bf16 \
    --mesh seq=2 --context ulysses
  compile kernels gpt2-sequence gpt2 "$gpt2" "${even[@]}" --precision bf16 \
    --mesh tensor=2 --sequence-parallel --recompute full
  compile kernels gpt2-chunks gpt2 "$gpt2" "${common[@]}" --precision bf16 \
    --chunk-tokens 20
  compile kernels gpt2-tf32 gpt2 "$gpt2" "${common[@]}" --precision fp32 \
    --matmul tf32
}

# pack_some SET NAME...: as pack. With --small, of these binaries only some are made.
pack_some() {
  case $sets:$2 in
  small:llama-fp32 | small:gemma2-fp32 | small:llama-bf16 | small:llama-int4-zeros) ;;
  small:llama-8b-bf16 | small:gpt2-xl-int4) ;;
  small:*) return ;;
  esac
  pack "$@"
}

# Small models that serve, which a CPU computes, too: every family in fp32, and a LLaMA
# in each other type. Their weights are large, so that texts do not repeat one token.
compile_serving() {
  local sizes='"vocab_size": 307, "max_position_embeddings": 96, "hidden_size": 48,
    "intermediate_size": 80, "num_attention_heads": 4,'
  local gated="$sizes"' "num_hidden_layers": 2, "num_key_value_heads": 2, "head_dim": 16'
  local gpt2='"vocab_size": 307, "n_positions": 96, "n_embd": 48, "n_layer": 2, "n_head": 4'
  local serving=(--mode serve --max-batch 2 --max-context 96 --march x86-64-v3)
  local targets=x86-64,$targets initializer=0.2 family
  mkdir "$bundle/serving"
  pack_some serving llama-fp32 llama "$gated" "${serving[@]}" --precision fp32
  for family in mistral qwen2 qwen3; do
    pack_some serving $family-fp32 $family "$gated"', "sliding_window": 21' \
      "${serving[@]}" --precision fp32
  done
  pack_some serving gpt2-fp32 gpt2 "$gpt2" "${serving[@]}" --precision fp32
  pack_some serving gemma2-fp32 gemma2 "$gated"', "sliding_window": 21,
    "query_pre_attn_scalar": 16, "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0' "${serving[@]}" --precision fp32
  pack_some serving gpt_neox-fp32 gpt_neox "$sizes"' "num_hidden_layers": 2' \
    "${serving[@]}" --precision fp32
  pack_some serving gpt_neo-fp32 gpt_neo '"vocab_size": 307, "max_position_embeddings": 96,
    "hidden_size": 48, "num_layers": 2, "num_heads": 4, "window_size": 21,
    "attention_types": [[["global", "local"], 1]]' "${serving[@]}" --precision fp32
  pack_some serving opt-fp32 opt '"vocab_size": 307, "max_position_embeddings": 96,
    "hidden_size": 48, "ffn_dim": 80, "num_hidden_layers": 2, "num_attention_heads": 4,
    "word_embed_proj_dim": 48' "${serving[@]}" --precision fp32
  pack_some serving llama-bf16 llama "$gated" "${serving[@]}" --precision bf16
  pack_some serving llama-fp16 llama "$gated" "${serving[@]}" --precision fp16
  pack_some serving llama-int8 llama "$gated" "${serving[@]}" --precision fp32 \
    --quantize int8 --quantize-activations none
  pack_some serving llama-int8-groups llama "$gated" "${serving[@]}" --precision fp32 \
    --quantize int8 --quantize-group 16 --quantize-activations none
  pack_some serving llama-int4 llama "$gated" "${serving[@]}" --precision fp32 \
    --quantize int4 --quantize-group 16 --quantize-activations none
  pack_some serving llama-int4-zeros llama "$gated" "${serving[@]}" --precision fp32 \
    --quantize int4 --quantize-group 16 --quantize-zeros --quantize-activations none
  pack_some serving llama-int8-cache llama "$gated" "${serving[@]}" --precision fp32 \
    --kv-type int8
}

# compile_decode SET LLAMA8B LLAMA1B CONTEXT GPT2 CONTEXT: what `decode` measures.
compile_decode() {
  local set=$1 type flags
  local serving=(--mode serve --precision bf16 --max-batch 32 --kv-cache auto)
  for type in bf16 int8 int4; do
    flags=(--quantize $type)
    [ $type != bf16 ] || flags=()
    pack_some "$set" llama-8b-$type llama "$2" "${serving[@]}" --max-context "$4" "${flags[@]}"
    pack_some "$set" llama-1b-$type llama "$3" "${serving[@]}" --max-context "$4" "${flags[@]}"
    pack_some "$set" gpt2-xl-$type gpt2 "$5" "${serving[@]}" --max-context "$6" "${flags[@]}"
  done
}

echo '{"optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "weight_decay": 0.01}},
  "gradient_clipping": 1.0}' >"$work/ds.json"
compile_kernels
compile_serving
for set in $sets; do
  case $set in
  small)
    compile_set small \
      '"vocab_size": 307, "n_positions": 32, "n_embd": 48, "n_layer": 2, "n_head": 4' \
      '"vocab_size": 307, "max_position_embeddings": 32, "hidden_size": 32,
       "intermediate_size": 44, "num_hidden_layers": 1,
       "num_attention_heads": 4, "num_key_value_heads": 2' \
      '"vocab_size": 307, "max_position_embeddings": 32, "hidden_size": 32,
       "intermediate_size": 44, "num_hidden_layers": 1, "num_attention_heads": 4' \
      4 19 2 19
    llama='"vocab_size": 307, "hidden_size": 64, "intermediate_size": 128,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2'
    compile_decode small "$llama"', "max_position_embeddings": 64' \
      "$llama"', "max_position_embeddings": 64' 64 \
      '"vocab_size": 307, "n_positions": 64, "n_embd": 64, "n_layer": 1, "n_head": 4' 64
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
    compile_decode full \
      '"vocab_size": 128256, "max_position_embeddings": 8192, "hidden_size": 4096,
       "intermediate_size": 14336, "num_hidden_layers": 32,
       "num_attention_heads": 32, "num_key_value_heads": 8' \
      '"vocab_size": 32000, "max_position_embeddings": 4096, "hidden_size": 2048,
       "intermediate_size": 5632, "num_hidden_layers": 22,
       "num_attention_heads": 32, "num_key_value_heads": 4' 2176 \
      '"vocab_size": 50257, "n_positions": 1024, "n_embd": 1600, "n_layer": 48, "n_head": 25' 1024
    ;;
  esac
done

"$heddle" data prepare "$root"/README.md "$root"/docs/*.md --tokenizer bytes \
  -o "$bundle/tokens.bin" >/dev/null 2>&1
cp "$runtime" "$bundle/runtime"
cp "$root/scripts/run_gpu.sh" "$bundle/"
cp "$root/LICENSE" "$bundle/"

tar -C "$work" --sort=name --owner=0 --group=0 -cf - heddle-gpu | xz -T0 -$level >"$output"
bytes=$(stat -c %s "$output")
echo "$output: $bytes bytes"
if [ "$bytes" -gt "$most" ]; then
  echo "that is more than $most" >&2
  exit 1
fi
