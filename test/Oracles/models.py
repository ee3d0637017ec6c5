# Small models with their weights and tokens, the same everywhere.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models that record.py has Hugging Face's transformers compute. Weights and
tokens are functions of names and places in integers, which every numpy and every
machine makes alike: a record holds none of them.

Sizes are no powers of two, vocabularies are prime."""

import zlib

import numpy as np

ROWS, SEQ, STEPS = 4, 11, 20
ADAMW = dict(lr=2e-3, betas=(0.9, 0.999), eps=1e-5, weight_decay=0.01)
CLIP = 1.0
PROMPT, GENERATED = 4, 6

GPT2 = dict(model_type="gpt2", vocab_size=97, n_positions=13, n_embd=30, n_layer=2,
            n_head=3, n_inner=None, activation_function="gelu_new",
            layer_norm_epsilon=1e-5, initializer_range=0.02, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=True)

LLAMA = dict(model_type="llama", vocab_size=97, hidden_size=30, intermediate_size=37,
             num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
             head_dim=10, hidden_act="silu", max_position_embeddings=64,
             initializer_range=0.02, rms_norm_eps=1e-5, rope_theta=50.0,
             tie_word_embeddings=False)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)

BERT = dict(model_type="bert", vocab_size=97, hidden_size=30, num_hidden_layers=2,
            num_attention_heads=3, intermediate_size=37, hidden_act="gelu",
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
            max_position_embeddings=13, type_vocab_size=2, initializer_range=0.02,
            layer_norm_eps=1e-12, pad_token_id=0, tie_word_embeddings=True)

QWEN3 = dict(LLAMA, model_type="qwen3", num_attention_heads=4, num_key_value_heads=2,
             head_dim=6)

GEMMA2 = dict(model_type="gemma2", vocab_size=97, hidden_size=30, intermediate_size=37,
              num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
              head_dim=6, hidden_activation="gelu_pytorch_tanh",
              max_position_embeddings=64, initializer_range=0.02, rms_norm_eps=1e-5,
              rope_theta=50.0, query_pre_attn_scalar=7, sliding_window=5,
              attn_logit_softcapping=2.0, final_logit_softcapping=3.0, pad_token_id=0,
              tie_word_embeddings=True)

GPT_NEO = dict(model_type="gpt_neo", vocab_size=97, max_position_embeddings=13,
               hidden_size=30, num_layers=3, num_heads=2, intermediate_size=None,
               attention_types=[[["global", "local"], 1], [["local"], 1]],
               window_size=4, activation_function="gelu_new", layer_norm_epsilon=1e-5,
               initializer_range=0.02, resid_dropout=0.0, embed_dropout=0.0,
               attention_dropout=0.0, tie_word_embeddings=True)

GPT_NEOX = dict(model_type="gpt_neox", vocab_size=97, hidden_size=24,
                num_hidden_layers=2, num_attention_heads=2, intermediate_size=37,
                hidden_act="gelu", rotary_pct=0.5, rotary_emb_base=50,
                max_position_embeddings=13, initializer_range=0.02,
                layer_norm_eps=1e-5, attention_dropout=0.0, hidden_dropout=0.0,
                use_parallel_residual=True, tie_word_embeddings=False)

OPT = dict(model_type="opt", vocab_size=97, hidden_size=30, num_hidden_layers=2,
           num_attention_heads=2, ffn_dim=37, max_position_embeddings=13,
           do_layer_norm_before=True, activation_function="relu", dropout=0.0,
           attention_dropout=0.0, init_std=0.02, pad_token_id=1,
           tie_word_embeddings=True)

CONFIGS = {
    "bert": BERT,
    "bert-untied": dict(BERT, tie_word_embeddings=False, num_hidden_layers=1,
                        hidden_act="gelu_new", type_vocab_size=3, pad_token_id=None),
    "gpt2": GPT2,
    "gpt2-untied": dict(GPT2, tie_word_embeddings=False, n_inner=77, n_layer=1,
                        activation_function="gelu"),
    "llama": LLAMA,
    "llama-llama3": dict(LLAMA, rope_scaling=LLAMA3, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=6, tie_word_embeddings=True,
                         attention_bias=True, mlp_bias=True),
    "llama-linear": dict(LLAMA, num_hidden_layers=1,
                         rope_scaling=dict(rope_type="linear", factor=3.0)),
    "gemma2": GEMMA2,
    "gemma2-plain": dict(GEMMA2, num_hidden_layers=2, attention_bias=True,
                         attn_logit_softcapping=None, final_logit_softcapping=None,
                         tie_word_embeddings=False, sliding_window=1,
                         layer_types=["full_attention", "sliding_attention"]),
    "gpt_neo": GPT_NEO,
    "gpt_neo-untied": dict(GPT_NEO, num_layers=2, intermediate_size=37,
                           attention_types=[[["local"], 2]], window_size=7,
                           tie_word_embeddings=False),
    "gpt_neox": GPT_NEOX,
    "gpt_neox-serial": dict(GPT_NEOX, num_attention_heads=4, hidden_size=24,
                            use_parallel_residual=False, attention_bias=False,
                            rotary_pct=1.0, tie_word_embeddings=True,
                            rope_scaling=dict(rope_type="linear", factor=3.0)),
    "opt": OPT,
    "opt-post": dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=14,
                     enable_bias=False, activation_function="gelu",
                     tie_word_embeddings=False, pad_token_id=None),
    "qwen3": QWEN3,
    "qwen3-window": dict(QWEN3, tie_word_embeddings=True, use_sliding_window=True,
                         sliding_window=3, max_window_layers=1, attention_bias=True),
    "mistral-window": dict(LLAMA, model_type="mistral", sliding_window=5,
                           num_attention_heads=4, num_key_value_heads=2,
                           tie_word_embeddings=True),
    "mistral": dict(LLAMA, model_type="mistral", sliding_window=12, pad_token_id=1),
    "qwen2": dict(LLAMA, model_type="qwen2", hidden_size=40, num_attention_heads=4,
                  num_key_value_heads=2, rope_scaling=YARN, tie_word_embeddings=True),
}

# Models that serve: longer texts, over windows that do not end with a page.
PROMPTS, CONTINUED = (1, 17, 203, 999), 64
SCORED = (0, 15, 16, 39, 101, 266, 523, 1062)
POSITIONS = max(PROMPTS) + CONTINUED
SERVED = {
    "gpt2": dict(GPT2, n_positions=POSITIONS),
    "llama": dict(LLAMA, max_position_embeddings=POSITIONS),
    "mistral": dict(LLAMA, model_type="mistral", num_attention_heads=4, head_dim=6,
                    num_key_value_heads=2, sliding_window=37,
                    max_position_embeddings=POSITIONS),
    "qwen2": dict(LLAMA, model_type="qwen2", hidden_size=40, num_attention_heads=4,
                  num_key_value_heads=2, use_sliding_window=True, sliding_window=21,
                  max_window_layers=1, max_position_embeddings=POSITIONS),
    "qwen3": dict(QWEN3, max_position_embeddings=POSITIONS),
    "gemma2": dict(GEMMA2, sliding_window=29, max_position_embeddings=POSITIONS),
    "gpt_neo": dict(GPT_NEO, window_size=33, max_position_embeddings=POSITIONS),
    "gpt_neox": dict(GPT_NEOX, max_position_embeddings=POSITIONS),
    "opt": dict(OPT, max_position_embeddings=POSITIONS),
}


def uniform(name, count):
    """Numbers in [-0.5, 0.5) with 24 bits: splitmix64 of the name and the place."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64)
             + np.uint64(zlib.crc32(name.encode()) << 24))
        z *= np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2 ** 24 - 0.5


def weight(name, shape):
    """The first value of a parameter: norms near 1, biases no zeros."""
    value = uniform(name, int(np.prod(shape))).reshape(shape)
    is_norm = len(shape) == 1 and name.endswith("weight")
    return (1 + 0.4 * value if is_norm else 0.3 * value).astype(np.float32)


def tokens(vocab):
    """Tokens that say something of the next: a model learns of them."""
    drawn = uniform("tokens", ROWS * SEQ * STEPS + 1) + 0.5
    common = (drawn ** 3 * vocab).astype(np.int64)
    follows = (np.roll(common, 1) * 3 + 1) % vocab
    return np.where(uniform("follows", len(common)) < 0, common, follows)


SERVED_IN_FP16 = ("gemma2", "gpt2", "llama", "opt")


def text(vocab):
    """The text of models that serve."""
    return np.resize(tokens(vocab), POSITIONS)


def masked_rows(config):
    """The batches of an encoder, one after the other, as --inputs has them: rows of
    unequal lengths, of which a fifth of the tokens is masked and has a label."""
    vocab, rows = config["vocab_size"], ROWS * STEPS
    text = tokens(vocab)[:rows * SEQ].reshape(rows, SEQ)
    lengths = 1 + ((uniform("lengths", rows) + 0.5) * SEQ).astype(np.int64)
    places = np.arange(SEQ)
    is_masked = uniform("masked", rows * SEQ).reshape(rows, SEQ) < -0.3
    is_masked[:, 0] |= ~is_masked.any(axis=1)
    is_masked &= places < lengths[:, None]
    ids = np.where(is_masked, vocab - 1, text)
    segments = places * config["type_vocab_size"] // lengths[:, None]
    segments = np.minimum(segments, config["type_vocab_size"] - 1)
    return {"ids": np.where(places < lengths[:, None], ids, 0),
            "labels": np.where(is_masked, text, -100),
            "segments": segments, "lengths": lengths}


def summary(name, value):
    """What a record keeps of a tensor: its norm, and its product with a direction
    that depends on the name."""
    flat = np.asarray(value, np.float64).reshape(-1)
    return [float(np.linalg.norm(flat)), float(flat @ uniform("of " + name, flat.size))]
