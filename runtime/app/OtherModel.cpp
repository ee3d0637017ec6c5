//===- OtherModel.cpp - Warn of weights of another model ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Warnings.h"
#include "heddle/runtime/app/Job.h"
#include "heddle/runtime/io/Checkpoint.h"
#include "heddle/runtime/io/Json.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;

/// Keys of config.json that change a model's results but not the shapes of its
/// weights. So only a comparison of config.json can detect that the weights
/// belong to another model than the compiled one.
static constexpr const char *keys[] = {
    "model_type",
    "n_head",
    "num_heads",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "rms_norm_eps",
    "activation_function",
    "hidden_act",
    "hidden_activation",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rotary_emb_base",
    "rotary_pct",
    "partial_rotary_factor",
    "sliding_window",
    "use_sliding_window",
    "max_window_layers",
    "layer_types",
    "window_size",
    "attention_types",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "query_pre_attn_scalar",
    "scale_attn_weights",
    "use_parallel_residual",
    "do_layer_norm_before",
};

void heddle::rt::warnOfOtherModel(const Job &job,
                                  const std::string &directory) {
  std::string path = directory + "/config.json";
  std::error_code ignored;
  if (directory.empty() || !std::filesystem::is_regular_file(path, ignored))
    return;
  nlohmann::json theirs = io::parseJsonFile(path, io::modelJsonCodes).toJson();
  const nlohmann::json &ours = job.plan().modelConfig;
  std::string found, compiled;
  for (const char *key : keys) {
    if (!theirs.contains(key) || !ours.contains(key) ||
        theirs[key] == ours[key])
      continue;
    std::string separator = found.empty() ? "" : ", ";
    found += separator + key + " " + theirs[key].dump();
    compiled += separator + ours[key].dump();
  }
  if (found.empty())
    return;
  Diagnostic other;
  other.code = "H0418";
  other.message = path + " says " + found + "; this binary was compiled with " +
                  compiled + ", and computes with that";
  other.help = "compile " + directory + ", unless that is meant";
  warn(other);
}

void heddle::rt::warnOfDense(const Job &job, const std::string &directory) {
  if (!job.plan().weights.layouts.empty() ||
      io::layoutsOfModel(directory).empty())
    return;
  Diagnostic dense;
  dense.code = "H0143";
  dense.message = "the weights in " + directory +
                  " were trained with layouts of attention, and this binary "
                  "computes dense attention";
  dense.help = job.isDraft()
                   ? "texts stay right; for more right guesses, give a draft "
                     "that was trained without layouts"
                   : "compile " + directory +
                         " with its layouts: heddle compile says the flags";
  warn(dense);
}
