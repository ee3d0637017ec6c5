//===- DsTrainingKeys.cpp - Keys of ds_config.json: training --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules for the keys of ds_config.json that are about precision, optimizer,
// schedule or logging, but from which Heddle reads no setting. A rule (DsRule)
// says, for example, that the key is ignored, or rejected unless its value has
// no effect.
//
//===----------------------------------------------------------------------===//

#include "DsSchema.h"

using namespace heddle::config;

namespace {
using R = DsRule;
constexpr unsigned Int = DsInt | DsAuto;
constexpr const char *reports =
    "the binary reports itself: --log, --trace, heddle explain";
constexpr const char *noService =
    "a run talks to no service; upload what --log or --log-tensorboard writes";
constexpr const char *allOperations = "all operations are reported";
constexpr const char *exactMean =
    "gradients are summed in fp32, so scaling them changes nothing";
constexpr const char *sameNumbers = "chooses an implementation, not numbers";
} // namespace

static void addOptimizer(std::vector<DsKey> &keys) {
  keys.insert(
      keys.end(),
      {{"optimizer", DsObject, R::Section},
       {"optimizer.legacy_fusion", DsBool, R::Ignored, sameNumbers},
       {"optimizer.params", DsObject, R::Section},
       {"optimizer.params.bias_correction", DsBool, R::Neutral,
        "moments are always corrected for their bias, but for those of "
        "OneBitAdam, ZeroOneAdam and OneBitLamb",
        "[true]"},
       {"optimizer.params.amsgrad", DsBool, R::Neutral,
        "AMSGrad is not supported"},
       {"optimizer.params.maximize", DsBool, R::Neutral,
        "the loss is minimised"},
       {"optimizer.params.max_grad_norm", DsNumber, R::Neutral,
        "DeepSpeed refuses it here; use the key gradient_clipping",
        "[0, null]"},
       {"optimizer.params.eps_inside_sqrt", DsBool, R::Neutral,
        "eps is added to the root of the second moment"},
       {"optimizer.params.cuda_aware", DsBool, R::Ignored, sameNumbers},
       {"optimizer.params.comm_backend_name", DsString, R::Ignored,
        sameNumbers},
       {"optimizer.params.fused", DsBool | DsNull, R::Ignored, sameNumbers},
       {"optimizer.params.foreach", DsBool | DsNull, R::Ignored, sameNumbers},
       {"optimizer.params.capturable", DsBool, R::Ignored, sameNumbers},
       {"optimizer.params.differentiable", DsBool, R::Neutral,
        "the update is not differentiated"},
       {"optimizer.params.set_grad_none", DsBool, R::Ignored, sameNumbers},
       {"optimizer.params.adamw_mode", DsBool, R::Neutral,
        "the key is called adam_w_mode", "[true]"},
       {"optimizer.params.fp32_optimizer_states", DsBool, R::Neutral,
        "moments are held in fp32", "[true]"},
       {"scheduler", DsObject, R::Section},
       {"scheduler.params", DsObject, R::Section}});
}

static void addPrecision(std::vector<DsKey> &keys) {
  for (const char *name : {"bf16", "bfloat16"}) {
    auto add = [&](const char *member, unsigned types, R rule,
                   const char *why = "") {
      keys.push_back({std::string(name) + member, types, rule, why});
    };
    add("", DsObject, R::Section);
    add(".immediate_grad_update", DsBool, R::Ignored,
        "gradients are accumulated in fp32 as they are made");
    add(".check_grad_overflow", DsBool, R::Ignored,
        "a loss that is not finite stops the run");
    add(".bf16_master_weights_and_grads", DsBool, R::Neutral,
        "master weights and gradients are fp32");
    add(".bf16_optimizer_states", DsBool, R::Neutral,
        "optimizer states are fp32");
  }
  keys.insert(
      keys.end(),
      {{"fp16.auto_cast", DsBool, R::Ignored, "ids have no type to cast"},
       {"fp16.fp16_master_weights_and_grads", DsBool, R::Neutral,
        "master weights and gradients are fp32"},
       {"fp16.fp16_opt_level", DsString, R::Ignored, "an option of Apex AMP"},
       {"amp", DsObject, R::Gated,
        "Apex AMP is not supported; enable bf16 or fp16", "", nullptr,
        "precision"},
       {"amp.enabled", DsBool | DsAuto, R::Ignored, "off"},
       {"amp.opt_level", DsString, R::Ignored, "off"},
       {"torch_autocast", DsObject, R::Gated,
        "torch.autocast is not supported; enable bf16 or fp16", "", nullptr,
        "precision"},
       {"torch_autocast.enabled", DsBool | DsAuto, R::Ignored, "off"},
       {"torch_autocast.dtype", DsString, R::Ignored, "off"},
       {"torch_autocast.lower_precision_safe_modules", DsList | DsNull,
        R::Ignored, "off"},
       {"data_types", DsObject, R::Section},
       {"data_types.grad_accum_dtype", DsString | DsNull, R::Neutral,
        "gradients are accumulated in fp32", "[null, \"fp32\", \"float32\"]"},
       {"data_types.param_dtype", DsString | DsNull, R::Neutral,
        "parameters are held in fp32", "[null, \"fp32\", \"float32\"]"},
       {"data_types.buffer_dtype", DsString | DsNull, R::Neutral,
        "buffers are held in fp32", "[null, \"fp32\", \"float32\"]"},
       {"data_types.keep_in_fp32_modules", DsList | DsString | DsNull,
        R::Ignored, "buffers are held in fp32"}});
}

static void addReports(std::vector<DsKey> &keys) {
  keys.insert(
      keys.end(),
      {{"steps_per_print", Int | DsNull, R::Ignored,
        "every step is printed, or none: train --progress"},
       {"dump_state", DsBool, R::Ignored,
        "heddle explain shows all settings and states"},
       {"log_level", DsString | DsNull, R::Ignored, reports},
       {"timers", DsObject, R::Section},
       {"timers.throughput", DsObject, R::Section},
       {"timers.throughput.enabled", DsBool, R::Ignored, reports},
       {"timers.throughput.synchronized", DsBool, R::Ignored, reports},
       {"flops_profiler.recompute_fwd_factor", DsNumber, R::Ignored,
        "FLOPs of a profile are those without recomputation"},
       {"flops_profiler.detailed", DsBool, R::Ignored,
        "a profile always shows modules; --profile-depth 0 shows the model"},
       {"comms_logger", DsObject, R::Section},
       {"comms_logger.verbose", DsBool, R::Ignored,
        "operations are reported together when the run ends; --trace shows "
        "each of them"},
       {"comms_logger.prof_all", DsBool, R::Ignored, allOperations},
       {"comms_logger.prof_ops", DsList, R::Ignored, allOperations},
       {"comms_logger.debug", DsBool, R::Ignored,
        "the report names the mesh axes of each operation"},
       {"monitor_config", DsObject, R::Section},
       {"monitor_config.*", DsBool | DsString | DsObject | DsNull, R::Ignored,
        reports}});
  for (const char *name : {"wandb", "comet"}) {
    keys.push_back({name, DsObject, R::Section});
    for (const char *member :
         {"enabled", "group", "team", "project", "samples_log_interval",
          "workspace", "api_key", "experiment_name", "experiment_key", "online",
          "mode"})
      keys.push_back({std::string(name) + "." + member,
                      DsBool | DsString | DsInt | DsNull, R::Ignored,
                      noService});
  }
}

const std::vector<DsKey> &heddle::config::dsTrainingKeys() {
  static const std::vector<DsKey> all = [] {
    std::vector<DsKey> keys = {
        {"prescale_gradients", DsBool, R::Ignored, exactMean},
        {"gradient_predivide_factor", DsNumber, R::Ignored, exactMean},
        {"gradient_allreduce_op", DsString, R::Neutral,
         "a step's gradient is the mean over the global batch", "[\"mean\"]"},
        {"sparse_gradients", DsBool, R::Ignored,
         "the embedding's gradient is planned as it is best"},
        {"managed_gradient_accumulation", DsBool, R::Ignored,
         "a step accumulates by itself"},
        {"graph_harvesting", DsBool, R::Ignored, "everything is compiled"},
        {"disable_python_gc", DsBool, R::Ignored, "no Python runs"},
        {"vocabulary_size", DsInt | DsNull, R::Ignored,
         "only a check of DeepSpeed's; the model says it"},
        {"dataloader_drop_last", DsBool, R::Ignored,
         "a step always takes a whole batch"},
        {"$schema", DsString, R::Ignored, "for editors"},
    };
    addOptimizer(keys);
    addPrecision(keys);
    addReports(keys);
    return keys;
  }();
  return all;
}
