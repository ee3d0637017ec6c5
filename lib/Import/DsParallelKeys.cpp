//===- DsParallelKeys.cpp - Keys of ds_config.json: many ranks ------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules for the keys of ds_config.json that are about ZeRO, offload or
// parallelism, but from which Heddle reads no setting. A rule (DsRule) says,
// for example, that the key is ignored, or rejected unless its value has no
// effect.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"

using namespace heddle::config;

namespace {
using R = DsRule;
constexpr unsigned Num = DsNumber | DsAuto;
constexpr unsigned Int = DsInt | DsAuto;
constexpr unsigned Bool = DsBool | DsAuto;
constexpr const char *atCompileTime =
    "decided at compile time: what travels, and when, is a part of the plan";
constexpr const char *inUnits =
    "states are split and reduced in the plan's buckets, a layer each";
constexpr const char *sameInit =
    "weights are loaded, or made from --seed: alike on every mesh";
constexpr const char *planned =
    "all memory is planned at compile time: nothing to tune";
constexpr const char *checkpoints = "checkpoints hold logical tensors";
} // namespace

static void addZero(std::vector<DsKey> &keys) {
  keys.insert(
      keys.end(),
      {{"zero_optimization.ignore_unused_parameters", DsBool, R::Ignored,
        "a parameter without gradient is seen at compile time"},
       {"zero_optimization.memory_efficient_linear", DsBool, R::Ignored,
        planned},
       {"zero_optimization.legacy_stage1", DsBool, R::Ignored, atCompileTime},
       {"zero_optimization.compute_grad_norm", DsBool, R::Ignored,
        "the norm is computed where clipping or the log needs it"},
       {"zero_optimization.parameter_alignment", DsBool, R::Ignored,
        "parameters in a bucket are aligned as kernels need it"},
       {"zero_optimization.save_muon_momentum_buffer_in_memory", DsBool,
        R::Ignored, "Muon is not supported"},
       {"allgather_size", DsInt, R::Ignored, inUnits},
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
        inUnits},
       {"zero_optimization.zenflow", DsObject | DsNull, R::Neutral,
        "ZenFlow is not supported", "[null]"},
       {"zero_optimization.zeropp_loco_param", DsObject | DsNull, R::Neutral,
        "quantized gradients are not supported", "[null]"}});
  for (const char *name :
       {"overlap_comm", "reduce_scatter", "allgather_partitions",
        "round_robin_gradients", "use_multi_rank_bucket_allreduce",
        "stage3_use_all_reduce_for_fetch_params", "stage3_allgather_sequential",
        "use_all_reduce_for_fetch_params", "allgather_sequential",
        "override_module_apply", "log_trace_cache_warnings",
        "enable_sanity_checks"})
    keys.push_back({std::string("zero_optimization.") + name, Bool | DsNull,
                    R::Ignored, atCompileTime});
  for (const char *name : {"stage3_gather_16bit_weights_on_model_save",
                           "stage3_gather_fp16_weights_on_model_save",
                           "gather_16bit_weights_on_model_save"})
    keys.push_back({std::string("zero_optimization.") + name, Bool | DsNull,
                    R::Ignored, checkpoints});
  keys.push_back({"zero_optimization.contiguous_gradients", Bool | DsNull,
                  R::Ignored, inUnits});
  for (const char *name :
       {"zero_quantized_weights", "zero_quantized_nontrainable_weights",
        "zero_quantized_gradients"})
    keys.push_back({std::string("zero_optimization.") + name, Bool | DsNull,
                    R::Neutral, "quantized communication is not supported"});
  keys.push_back(
      {"zero_optimization.zero_hpz_partition_size", Num, R::Neutral,
       "states are split once over all data ranks, not again in a node",
       "[1, \"auto\"]"});
  keys.push_back({"zero_optimization.mics_shard_size", Num, R::Neutral,
                  "states are split over all data ranks", "[-1, \"auto\"]"});
  keys.push_back({"zero_optimization.mics_hierarchical_params_gather",
                  Bool | DsNull, R::Ignored, "mics_shard_size is off"});
  for (const char *name :
       {"reduce_bucket_size", "allgather_bucket_size",
        "stage3_module_granularity_threshold", "module_granularity_threshold"})
    keys.push_back(
        {std::string("zero_optimization.") + name, Num, R::Ignored, inUnits});
}

static void addOffload(std::vector<DsKey> &keys) {
  struct Answer {
    const char *name;
    unsigned types;
    const char *why;
  };
  static const Answer offload[] = {
      {"buffer_count", Num | DsNull,
       "tiles of states have as many buffers as a step needs, and more where "
       "--memory-budget has room"},
      {"buffer_size", Num | DsNull,
       "a tile of the optimizer's states has at most sub_group_size elements, "
       "and parameters are fetched layer by layer: no tensor has to fit a "
       "buffer"},
      {"max_in_cpu", Num | DsNull,
       "each state is in one memory: --place parameters=host keeps all in the "
       "host's"},
      {"cpuadam_cores_perc", Num | DsNull,
       "updates on the host have all cores that the process may use, or "
       "--threads of them"},
      {"pipeline_read", Bool, "tiles are always read ahead of the update"},
      {"pipeline_write", Bool, "tiles are always written after the update"},
      {"pipeline", Bool, "tiles are always read ahead and written later"},
      {"fast_init", Bool,
       "first values always go from file to file, a few MiB at a time"},
      {"super_offload", Bool,
       "updates on the host wait for the norm of all gradients, and nothing is "
       "undone; with --delayed-update they begin as soon as gradients are "
       "there"}};
  for (const char *section : {"offload_param", "offload_optimizer"}) {
    std::string path = std::string("zero_optimization.") + section;
    keys.push_back({path, DsObject | DsNull, R::Section});
    for (const Answer &answer : offload)
      keys.push_back(
          {path + "." + answer.name, answer.types, R::Ignored, answer.why});
  }
  keys.push_back({"zero_optimization.offload_param.ratio", Num | DsNull,
                  R::Neutral, "all of the parameters are in one memory",
                  "[null, 1, 1.0]"});
  static const Answer requests[] = {
      {"thread_count", Int,
       "one thread hands all requests to io_uring; without it each of "
       "queue_depth requests has a thread"},
      {"intra_op_parallelism", Int,
       "a copy is cut into block_size requests, of which queue_depth are "
       "under way: no threads share it"},
      {"single_submit", DsBool,
       "one call hands over all requests that are ready, and waits for one"},
      {"overlap_events", DsBool,
       "requests are handed over while others are under way, always"},
      {"use_gds", DsBool,
       "files and a GPU's memory are copied through pinned memory"}};
  for (const Answer &answer : requests)
    keys.push_back({std::string("aio.") + answer.name, answer.types, R::Ignored,
                    answer.why});
  keys.push_back({"aio", DsObject, R::Section});
}

static void addParallelism(std::vector<DsKey> &keys) {
  constexpr const char *wholeSplit =
      "matrices and heads are split evenly, or not at all";
  // Two names of the same section: DeepSpeed's field is `tensor_parallel`, and
  // `tp` is its alias.
  for (const std::string section :
       {"tensor_parallel.tp", "tensor_parallel.tensor_parallel"}) {
    keys.push_back({section, DsObject | DsNull, R::Section});
    keys.push_back({section + ".tp_grain_size", DsInt, R::Ignored, wholeSplit});
    keys.push_back({section + ".enabled", DsBool, R::Ignored,
                    "tp_size 1 switches it off"});
    for (const char *object : {".mpu", ".tp_group"})
      keys.push_back({section + object, DsNull, R::Ignored,
                      "an object of Python, which no file holds"});
  }
  constexpr const char *fromFamily =
      "how a layer is split follows from its operations";
  constexpr const char *noExperts = "no family with experts is known";
  keys.insert(
      keys.end(),
      {{"tensor_parallel", DsObject, R::Section},
       {"tensor_parallel.enabled", DsBool, R::Ignored,
        "autotp_size 0 switches it off"},
       {"tensor_parallel.preset_model", DsString | DsNull, R::Ignored,
        fromFamily},
       {"tensor_parallel.tp_overlap_comm", DsBool, R::Ignored, atCompileTime},
       {"tensor_parallel.tp_grain_size", DsInt, R::Ignored, wholeSplit},
       {"tensor_parallel.partition_config", DsObject | DsNull, R::Section},
       {"tensor_parallel.partition_config.*", DsBool | DsList | DsString,
        R::Ignored, fromFamily},
       {"expert_parallel", DsObject, R::Gated, noExperts},
       {"expert_parallel.enabled", DsBool, R::Ignored, "off"},
       {"expert_parallel.*", DsBool | DsNumber | DsString | DsNull, R::Ignored,
        "off"},
       {"tensor_parallel.vocab_parallel_lm_head", DsBool | DsNull, R::Ignored,
        fromFamily},
       {"tensor_parallel.vocab_parallel_ce_backend", DsString, R::Ignored,
        "kernels are generated"},
       {"tensor_parallel.dtype", DsString, R::Ignored, "--precision says it"},
       {"tensor_parallel.injection_policy_tuple", DsList | DsNull, R::Ignored,
        fromFamily},
       {"tensor_parallel.keep_module_on_host", DsBool, R::Ignored,
        "each rank reads its part of the weights"},
       {"tensor_parallel.kernel_inject", DsBool, R::Ignored,
        "kernels are generated"},
       {"tensor_parallel.replace_with_kernel_inject", DsBool, R::Ignored,
        "kernels are generated"},
       {"use_data_before_expert_parallelism", DsBool, R::Ignored, noExperts},
       {"pipeline", DsObject, R::Section},
       {"pipeline.partition", DsString, R::Ignored,
        "layers are cut by cost; --pipeline-layout says otherwise"},
       {"pipeline.seed_layers", DsBool, R::Ignored, sameInit},
       {"pipeline.activation_checkpoint_interval", DsInt, R::Neutral,
        "use --recompute", "[0]"},
       {"pipeline.pipe_partitioned", DsBool, R::Ignored, atCompileTime},
       {"pipeline.grad_partitioned", DsBool, R::Ignored, atCompileTime},
       {"pipeline.use_reentrant", DsBool, R::Ignored,
        "a switch of PyTorch's checkpointing; --recompute says it"},
       {"disable_allgather", DsBool, R::Ignored, atCompileTime},
       {"zero_allow_untested_optimizer", DsBool, R::Ignored,
        "the optimizers that are known work with every stage"},
       {"zero_force_ds_cpu_optimizer", DsBool, R::Ignored,
        "where states are does not change the optimizer"},
       {"activation_checkpointing", DsObject, R::Section},
       {"activation_checkpointing.contiguous_memory_optimization", DsBool,
        R::Ignored, planned},
       {"activation_checkpointing.number_checkpoints", DsInt | DsNull,
        R::Ignored, "--recompute says what is computed again"},
       {"activation_checkpointing.synchronize_checkpoint_boundary", DsBool,
        R::Ignored, planned},
       {"checkpoint", DsObject, R::Section},
       {"checkpoint.tag_validation", DsString, R::Ignored,
        "all ranks save the same step"},
       {"checkpoint.load_universal", DsBool, R::Ignored, checkpoints},
       {"checkpoint.use_node_local_storage", DsBool, R::Ignored, checkpoints},
       {"checkpoint.checkpoint_serialization", DsBool, R::Ignored, checkpoints},
       {"checkpoint.parallel_write", DsObject, R::Section},
       {"checkpoint.parallel_write.pipeline_stage", DsBool, R::Ignored,
        checkpoints},
       {"checkpoint.writer", DsObject | DsNull, R::Section},
       {"checkpoint.writer.*", DsBool | DsInt | DsString | DsNull, R::Ignored,
        checkpoints},
       {"load_universal_checkpoint", DsBool, R::Ignored, checkpoints},
       {"use_node_local_storage", DsBool, R::Ignored, checkpoints}});
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
