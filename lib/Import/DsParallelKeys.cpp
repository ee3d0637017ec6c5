//===- DsParallelKeys.cpp - Keys of ds_config.json: many ranks ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"

using namespace heddle::config;

namespace {
using R = DsRule;
constexpr unsigned Num = DsNumber | DsAuto;
constexpr unsigned Int = DsInt | DsAuto;
constexpr unsigned Bool = DsBool | DsAuto;
constexpr const char *oneRank = "one rank: nothing is communicated or split";
constexpr const char *planned =
    "all memory is planned at compile time: nothing to tune";
constexpr const char *checkpoints = "checkpoints hold logical tensors";
constexpr const char *noOffload = "offload is not supported";
constexpr const char *offloadOff = "offload is off";
} // namespace

static void addZero(std::vector<DsKey> &keys) {
  keys.insert(
      keys.end(),
      {{"zero_optimization", DsObject | DsBool, R::Section},
       {"zero_optimization.stage", Int, R::Applied,
        "one rank: it holds every state whatever the stage"},
       {"zero_optimization.cpu_offload", DsBool | DsNull, R::Neutral,
        noOffload},
       {"zero_optimization.cpu_offload_params", DsBool | DsNull, R::Neutral,
        noOffload},
       {"zero_optimization.cpu_offload_use_pin_memory", DsBool | DsNull,
        R::Ignored, offloadOff},
       {"zero_optimization.ignore_unused_parameters", DsBool, R::Ignored,
        "a parameter without gradient is seen at compile time"},
       {"zero_optimization.memory_efficient_linear", DsBool, R::Ignored,
        planned},
       {"zero_optimization.legacy_stage1", DsBool, R::Ignored, oneRank},
       {"zero_optimization.elastic_checkpoint", DsBool, R::Ignored,
        checkpoints},
       {"zero_optimization.load_from_fp32_weights", DsBool, R::Ignored,
        checkpoints},
       {"zero_optimization.pipeline_loading_checkpoint", DsBool, R::Ignored,
        checkpoints},
       {"zero_optimization.grad_hooks", DsBool, R::Neutral,
        "DeepSpeed refuses it too", "[]"},
       {"zero_optimization.leaf_module", DsObject | DsNull, R::Section},
       {"zero_optimization.leaf_module.*", DsList | DsBool, R::Ignored,
        oneRank},
       {"zero_optimization.zenflow", DsObject | DsNull, R::Neutral,
        "ZenFlow is not supported", "[null]"},
       {"zero_optimization.zeropp_loco_param", DsObject | DsNull, R::Neutral,
        "quantized gradients are not supported", "[null]"}});
  for (const char *name :
       {"overlap_comm", "contiguous_gradients", "reduce_scatter",
        "round_robin_gradients", "use_multi_rank_bucket_allreduce",
        "allgather_partitions", "stage3_gather_16bit_weights_on_model_save",
        "stage3_gather_fp16_weights_on_model_save",
        "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential",
        "zero_quantized_weights", "zero_quantized_nontrainable_weights",
        "zero_quantized_gradients", "mics_hierarchical_params_gather",
        "override_module_apply", "log_trace_cache_warnings",
        "enable_sanity_checks", "gather_16bit_weights_on_model_save"})
    keys.push_back({std::string("zero_optimization.") + name, Bool | DsNull,
                    R::Ignored, oneRank});
  for (const char *name :
       {"reduce_bucket_size", "allgather_bucket_size", "sub_group_size",
        "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold",
        "stage3_model_persistence_threshold", "stage3_max_live_parameters",
        "stage3_max_reuse_distance", "stage3_module_granularity_threshold",
        "zero_hpz_partition_size", "mics_shard_size", "prefetch_bucket_size",
        "param_persistence_threshold", "model_persistence_threshold",
        "max_live_parameters", "max_reuse_distance",
        "module_granularity_threshold"})
    keys.push_back(
        {std::string("zero_optimization.") + name, Num, R::Ignored, oneRank});
}

static void addOffload(std::vector<DsKey> &keys) {
  for (const char *section : {"offload_param", "offload_optimizer"}) {
    std::string path = std::string("zero_optimization.") + section;
    keys.push_back({path, DsObject | DsNull, R::Section});
    keys.push_back({path + ".device", DsString | DsNull, R::Neutral, noOffload,
                    "[null, \"none\"]"});
    keys.push_back(
        {path + ".nvme_path", DsString | DsNull, R::Ignored, offloadOff});
    for (const char *name : {"buffer_count", "buffer_size", "max_in_cpu",
                             "ratio", "cpuadam_cores_perc"})
      keys.push_back({path + "." + name, Num | DsNull, R::Ignored, offloadOff});
    for (const char *name : {"pin_memory", "pipeline_read", "pipeline_write",
                             "pipeline", "fast_init", "super_offload"})
      keys.push_back({path + "." + name, Bool, R::Ignored, offloadOff});
  }
  for (const char *name :
       {"block_size", "queue_depth", "thread_count", "intra_op_parallelism"})
    keys.push_back({std::string("aio.") + name, Int, R::Ignored, offloadOff});
  for (const char *name : {"single_submit", "overlap_events", "use_gds"})
    keys.push_back(
        {std::string("aio.") + name, DsBool, R::Ignored, offloadOff});
  keys.push_back({"aio", DsObject, R::Section});
}

static void addParallelism(std::vector<DsKey> &keys) {
  constexpr const char *useMesh = "plans are made for one rank";
  keys.insert(
      keys.end(),
      {{"tensor_parallel", DsObject, R::Section},
       {"tensor_parallel.autotp_size", Int, R::Neutral, useMesh,
        "[0, 1, null]"},
       {"tensor_parallel.tp_size", Int, R::Neutral, useMesh, "[0, 1, null]"},
       {"tensor_parallel.enabled", DsBool, R::Ignored, oneRank},
       {"tensor_parallel.preset_model", DsString | DsNull, R::Ignored, oneRank},
       {"tensor_parallel.tp_overlap_comm", DsBool, R::Ignored, oneRank},
       {"tensor_parallel.tp_grain_size", DsInt, R::Ignored, oneRank},
       {"tensor_parallel.partition_config", DsObject | DsNull, R::Section},
       {"tensor_parallel.partition_config.*", DsBool | DsList | DsString,
        R::Ignored, oneRank},
       {"expert_parallel", DsObject, R::Gated, useMesh},
       {"expert_parallel.enabled", DsBool, R::Ignored, "off"},
       {"expert_parallel.*", DsBool | DsInt | DsString | DsNull, R::Ignored,
        "off"},
       {"sequence_parallel_size", DsInt, R::Neutral, useMesh, "[0, 1]"},
       {"use_data_before_expert_parallelism", DsBool, R::Ignored, oneRank},
       {"pipeline", DsObject, R::Section},
       {"pipeline.stages", Int, R::Neutral, useMesh, "[\"auto\", 1]"},
       {"pipeline.partition", DsString, R::Ignored, oneRank},
       {"pipeline.seed_layers", DsBool, R::Ignored, oneRank},
       {"pipeline.activation_checkpoint_interval", DsInt, R::Neutral,
        "use --recompute", "[0]"},
       {"pipeline.pipe_partitioned", DsBool, R::Ignored, oneRank},
       {"pipeline.grad_partitioned", DsBool, R::Ignored, oneRank},
       {"pipeline.use_reentrant", DsBool, R::Ignored, oneRank},
       {"communication_data_type", DsString | DsNull, R::Ignored, oneRank},
       {"seq_parallel_communication_data_type", DsString | DsNull, R::Ignored,
        oneRank},
       {"disable_allgather", DsBool, R::Ignored, oneRank},
       {"zero_allow_untested_optimizer", DsBool, R::Ignored,
        "the optimizers that are known work with every stage"},
       {"zero_force_ds_cpu_optimizer", DsBool, R::Ignored, offloadOff},
       {"activation_checkpointing", DsObject, R::Section},
       {"activation_checkpointing.partition_activations", DsBool, R::Ignored,
        oneRank},
       {"activation_checkpointing.cpu_checkpointing", DsBool, R::Neutral,
        noOffload},
       {"activation_checkpointing.contiguous_memory_optimization", DsBool,
        R::Ignored, planned},
       {"activation_checkpointing.number_checkpoints", DsInt | DsNull,
        R::Ignored, "--recompute says what is computed again"},
       {"activation_checkpointing.synchronize_checkpoint_boundary", DsBool,
        R::Ignored, oneRank},
       {"activation_checkpointing.profile", DsBool, R::Ignored, "use --trace"},
       {"checkpoint", DsObject, R::Section},
       {"checkpoint.tag_validation", DsString, R::Ignored, oneRank},
       {"checkpoint.load_universal", DsBool, R::Ignored, checkpoints},
       {"checkpoint.use_node_local_storage", DsBool, R::Ignored, oneRank},
       {"checkpoint.checkpoint_serialization", DsBool, R::Ignored, checkpoints},
       {"checkpoint.parallel_write", DsObject, R::Section},
       {"checkpoint.parallel_write.pipeline_stage", DsBool, R::Ignored,
        oneRank},
       {"checkpoint.writer", DsObject | DsNull, R::Section},
       {"checkpoint.writer.*", DsBool | DsInt | DsString | DsNull, R::Ignored,
        checkpoints},
       {"load_universal_checkpoint", DsBool, R::Ignored, checkpoints},
       {"use_node_local_storage", DsBool, R::Ignored, oneRank}});
}

const std::vector<DsKey> &heddle::config::dsParallelKeys() {
  static const std::vector<DsKey> all = [] {
    std::vector<DsKey> keys;
    addZero(keys);
    addOffload(keys);
    addParallelism(keys);
    return keys;
  }();
  return all;
}
