//===- DsFeatureKeys.cpp - Keys of ds_config.json: features ---------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules for sections of ds_config.json that configure one feature each.
// Most of these features are not supported, so that their sections are rejected
// if they are enabled.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"

using namespace heddle::config;

namespace {
using R = DsRule;
constexpr unsigned Any =
    DsBool | DsNumber | DsString | DsList | DsNull | DsAuto;
} // namespace

/// Adds the rules for a section that is rejected if its member `enabled` is
/// true, and for its members.
static void addGated(std::vector<DsKey> &keys, const std::string &section,
                     const char *why,
                     const std::vector<const char *> &members) {
  keys.push_back({section, DsObject, R::Gated, why});
  keys.push_back({section + ".enabled", DsBool, R::Ignored, "off"});
  for (const char *member : members)
    keys.push_back({section + "." + member, Any, R::Ignored, "off"});
}

/// Adds the rules for a section that has no member `enabled`. The section is
/// rejected if it is present.
static void addRefused(std::vector<DsKey> &keys, const std::string &section,
                       const char *why) {
  keys.push_back({section, DsObject | DsBool | DsNull, R::Neutral, why,
                  "[null, false, {}]"});
}

static void addCompression(std::vector<DsKey> &keys) {
  constexpr const char *why = "compression while training is not supported";
  keys.push_back({"compression_training", DsObject, R::Section});
  // DeepSpeed accepts the object `shared_parameters` in the section of each
  // compression technique, and also directly in `compression_training`.
  for (const char *kind :
       {"", ".activation_quantization", ".sparse_pruning", ".row_pruning",
        ".head_pruning", ".channel_pruning"}) {
    std::string section = std::string("compression_training") + kind;
    if (*kind)
      keys.push_back({section, DsObject, R::Section});
    addGated(keys, section + ".shared_parameters", why,
             {"quantizer_kernel", "schedule_offset", "schedule_offset_end",
              "schedule_offset_stride", "quantize_groups", "quantize_verbose",
              "quantization_type", "rounding", "quantize_weight_in_forward",
              "range_calibration", "method", "block_pattern", "dense_ratio",
              "excluded_modules", "num_heads"});
    std::string shared = section + ".shared_parameters.fp16_mixed_quantize";
    keys.push_back({shared, DsObject, R::Section});
    keys.push_back({shared + ".enabled", DsBool, R::Ignored, "off"});
    keys.push_back(
        {shared + ".quantize_change_ratio", DsNumber, R::Ignored, "off"});
    std::string groups = section + ".different_groups";
    keys.push_back({groups, DsObject, R::Section});
    keys.push_back({groups + ".*", DsObject, R::Section});
    keys.push_back({groups + ".*.params", DsObject, R::Section});
    keys.push_back({groups + ".*.modules", DsList, R::Ignored, "off"});
    keys.push_back(
        {groups + ".*.related_modules", DsList | DsNull, R::Ignored, "off"});
    for (const char *member :
         {"start_bits", "target_bits", "bits", "quantization_period",
          "dense_ratio", "num_heads"})
      keys.push_back(
          {groups + ".*.params." + member, DsNumber, R::Ignored, "off"});
  }
  addGated(keys, "compression_training.layer_reduction", why,
           {"keep_number_layer", "module_name_prefix", "teacher_layer",
            "other_module_name"});
}

static void addData(std::vector<DsKey> &keys) {
  addGated(
      keys, "curriculum_learning",
      "a curriculum changes the sequence length while training: not "
      "supported",
      {"curriculum_type", "min_difficulty", "max_difficulty", "schedule_type"});
  keys.push_back({"curriculum_learning.schedule_config", DsObject, R::Section});
  keys.push_back(
      {"curriculum_learning.schedule_config.*", Any, R::Ignored, "off"});
  constexpr const char *why = "data efficiency is not supported";
  keys.push_back({"data_efficiency", DsObject, R::Gated, why});
  keys.push_back({"data_efficiency.enabled", DsBool, R::Ignored, "off"});
  keys.push_back({"data_efficiency.seed", DsInt, R::Ignored,
                  "train --seed orders the data"});
  for (const char *kind : {"data_sampling", "data_routing"}) {
    std::string section = std::string("data_efficiency.") + kind;
    addGated(keys, section, why, {"num_epochs", "num_workers", "pin_memory"});
    const char *inner = section == "data_efficiency.data_sampling"
                            ? ".curriculum_learning"
                            : ".random_ltd";
    keys.push_back({section + inner, DsObject, R::Gated, why});
    keys.push_back({section + inner + ".enabled", DsBool, R::Ignored, "off"});
    keys.push_back({section + inner + ".*", Any | DsObject, R::Ignored, "off"});
  }
  const std::string batching = "data_efficiency.data_sampling.dynamic_batching";
  addGated(keys, batching, why, {});
  keys.push_back({batching + ".*", Any, R::Ignored, "off"});
}

static void addCompile(std::vector<DsKey> &keys) {
  constexpr const char *compiled = "everything is compiled ahead of time";
  keys.push_back({"compile", DsObject, R::Section});
  for (const char *name :
       {"deepcompile", "free_activation", "double_buffer", "symmetric_memory",
        "offload_activation_pin_memory", "sync_before_reduce",
        "sync_after_reduce", "sync_before_allgather", "sync_after_allgather",
        "keep_int_input_tensors", "keep_all_input_tensors", "debug_log",
        "autoep_non_moe", "enabled", "disable"})
    keys.push_back(
        {std::string("compile.") + name, DsBool, R::Ignored, compiled});
  keys.push_back(
      {"compile.free_activation_threshold", DsInt, R::Ignored, compiled});
  for (const char *name : {"passes", "backend", "kwargs"})
    keys.push_back({std::string("compile.") + name,
                    DsList | DsString | DsObject | DsNull, R::Ignored,
                    compiled});
  for (const char *name :
       {"offload_activation", "offload_opt_states", "offload_parameters"})
    keys.push_back({std::string("compile.") + name, DsBool, R::Neutral,
                    "--place says where states are"});
}

const std::vector<DsKey> &heddle::config::dsFeatureKeys() {
  static const std::vector<DsKey> all = [] {
    std::vector<DsKey> keys;
    addCompression(keys);
    addData(keys);
    addCompile(keys);
    for (const DsKey &key : sparseAttentionKeys())
      keys.push_back(key);
    for (const DsKey &key : quantizeTrainingKeys())
      keys.push_back(key);
    addRefused(keys, "weight_quantization",
               "quantized weights are not supported");
    addGated(keys, "eigenvalue",
             "periods of MoQ do not depend on eigenvalues of the Hessian yet",
             {"verbose", "max_iter", "tol", "stability",
              "gas_boundary_resolution", "layer_name", "layer_num"});
    addGated(keys, "elasticity",
             "it chooses the batch size at run time; a plan's is fixed",
             {"max_train_batch_size", "micro_batch_sizes", "min_gpus",
              "max_gpus", "min_time", "prefer_larger_batch", "version",
              "ignore_non_elastic_batch_info", "num_gpus_per_node",
              "model_parallel_size"});
    addGated(keys, "autotuning",
             "it runs trials to choose batch and stage, which a plan fixes",
             {"fast",
              "metric",
              "start_profile_step",
              "end_profile_step",
              "start_step",
              "end_step",
              "tuner_type",
              "tuner_early_stopping",
              "tuner_num_trials",
              "num_tuning_micro_batch_sizes",
              "mp_size",
              "results_dir",
              "exps_dir",
              "overwrite",
              "metric_path",
              "max_train_batch_size",
              "min_train_batch_size",
              "max_train_micro_batch_size_per_gpu",
              "min_train_micro_batch_size_per_gpu",
              "model_info_path"});
    keys.push_back({"autotuning.arg_mappings", DsObject | DsNull, R::Section});
    keys.push_back({"autotuning.arg_mappings.*", DsString, R::Ignored, "off"});
    keys.push_back({"autotuning.model_info", DsObject | DsNull, R::Section});
    keys.push_back({"autotuning.model_info.*", Any, R::Ignored, "off"});
    addGated(keys, "hybrid_engine", "the RLHF engine is not supported",
             {"max_out_tokens", "inference_tp_size", "release_inference_cache",
              "pin_parameters", "tp_gather_partition_size",
              "enable_cuda_graph"});
    addGated(keys, "nebula", "checkpoints go to files only",
             {"persistent_storage_path", "persistent_time_interval",
              "num_of_version_in_retention", "enable_nebula_load",
              "nebula_load_path", "load_path"});
    keys.push_back({"datastates_ckpt", DsObject | DsNull, R::Section});
    keys.push_back({"datastates_ckpt.*", Any, R::Ignored,
                    "changes how checkpoints are written, not what"});
    return keys;
  }();
  return all;
}
