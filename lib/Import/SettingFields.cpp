//===- SettingFields.cpp - Every setting and its range --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Import/Settings.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::config;

namespace {
using S = Settings;
using R = io::ValueRange;
using Fields = std::vector<SettingField>;
} // namespace

static R any() { return R::matching("", nullptr); }

static void addBatch(Fields &fields) {
  const R rows = R::integers(1, 1 << 30);
  fields.insert(fields.end(),
                {{"batch", "--batch", "import", &S::batch,
                  "rows of the global batch", rows},
                 {"micro_batch", "--micro-batch", "import", &S::microBatch,
                  "rows of one micro-batch on one rank", rows},
                 // A schedule has commands for each.
                 {"accumulate", "--accumulate", "import", &S::accumulate,
                  "micro-batches per step", R::integers(1, 1 << 16)},
                 {"seq", "--seq", "import", &S::seq, "tokens of a row",
                  R::integers(1, (1 << 24) - 1)},
                 {"precision", "--precision", "model", &S::precision,
                  "compute type", R::choices({"fp32", "bf16"})},
                 {"threads", "--threads", "memory", &S::threads,
                  "threads per rank", io::range::threads()},
                 {"march", "--march", "kernels", &S::march,
                  "instructions that may be used",
                  R::choices({"native", "x86-64-v3", "x86-64-v4", "amx"})},
                 {"target", "--target", "kernels", &S::target, "device",
                  R::choices({"x86-64", "sm_80", "sm_90"})},
                 {"recompute", "--recompute", "train", &S::recompute,
                  "activations computed again in the backward pass",
                  R::choices({"none", "selective", "full"})}});
}

static void addParallel(Fields &fields) {
  const R ranks = R::integers(1, 1000000), amount = R::integers(0, S::noLimit);
  fields.insert(
      fields.end(),
      {{"schedule", "--schedule", "pipe", &S::schedule, "of pipeline stages",
        R::choices({"gpipe", "1f1b", "interleaved", "zb-h1"})},
       {"virtual_stages", "--virtual-stages", "pipe", &S::virtualStages,
        "stages per rank", ranks},
       {"pipeline_layout", "--pipeline-layout", "pipe", &S::pipelineLayout,
        "layers of each stage; none: cut by cost", any()},
       {"zero", "--zero", "train", &S::zero,
        "ZeRO stage: states split over data and seq ranks", R::integers(0, 3)},
       {"sequence_parallel", "--sequence-parallel", "shard",
        &S::sequenceParallel, "tensor ranks split tokens between their regions",
        any()},
       {"context", "--context", "shard", &S::context,
        "attention over a split sequence", R::choices({"ulysses", "ring"})},
       {"collectives", "--collectives", "memory", &S::collectives,
        "fixed: sums in a fixed order; library: MPI's",
        R::choices({"fixed", "library"})},
       {"communication_type", "--communication-data-type", "train",
        &S::communicationType,
        "type in which gradients travel; none: the precision",
        R::choices({"fp32", "bf16", "fp16"})},
       {"memory_budget", "--memory-budget", "memory", &S::memoryBudget,
        "bytes per rank; 0: no limit", amount},
       {"param_persistence_threshold", "", "shard",
        &S::paramPersistenceThreshold,
        "ZeRO 3: parameters with fewer elements stay whole on every rank",
        amount},
       {"model_persistence_threshold", "", "shard",
        &S::modelPersistenceThreshold,
        "ZeRO 3: elements that may stay whole in all", amount},
       {"prefetch_bucket_size", "", "spmd", &S::prefetchBucketSize,
        "ZeRO 3: most elements of a layer that is gathered ahead", amount},
       {"max_live_parameters", "", "spmd", &S::maxLiveParameters,
        "ZeRO 3: most elements gathered at a time, by gathering ahead", amount},
       {"max_reuse_distance", "", "shard", &S::maxReuseDistance,
        "ZeRO 3: what is used again before so many elements stays gathered",
        amount},
       {"data", "--mesh", "import", &S::data, "ranks along the axis data",
        ranks},
       {"tensor", "--mesh", "import", &S::tensor, "ranks along the axis tensor",
        ranks},
       {"pipe", "--mesh", "train", &S::pipe, "ranks along the axis pipe",
        ranks},
       {"sequence", "--mesh", "import", &S::sequence,
        "ranks along the axis seq", ranks}});
}

static void addOptimizer(Fields &fields) {
  const R number = R::numbersFrom(0), share = R::numbers(0, 1, true);
  fields.insert(
      fields.end(),
      {{"optimizer", "", "train", &S::optimizer, "update rule",
        R::choices({"AdamW", "Adam"})},
       {"lr", "--lr", "emit", &S::lr, "learning rate before the schedule",
        number},
       {"beta1", "--betas", "train", &S::beta1, "decay of the first moment",
        share},
       {"beta2", "--betas", "train", &S::beta2, "decay of the second moment",
        share},
       {"eps", "--eps", "train", &S::eps,
        "added to the root of the second moment", number},
       {"weight_decay", "--weight-decay", "train", &S::weightDecay, "", number},
       {"decoupled", "", "train", &S::decoupled,
        "weight decay apart from the gradient (AdamW)", any()},
       {"gradient_clipping", "", "train", &S::gradientClipping,
        "largest global gradient norm; 1.0 when left out, as DeepSpeed; 0: off",
        number},
       {"no_decay", "--no-decay", "import", &S::noDecay,
        "parameters without weight decay (regular expression)", any()},
       {"scheduler", "", "emit", &S::scheduler,
        "learning-rate schedule; none: constant", any()},
       {"scheduler_params", "", "emit", &S::schedulerParams, "", any()},
       {"keep", "--keep", "import", &S::keep, "values that --dump writes",
        any()}});
}

const std::vector<SettingField> &config::settingFields() {
  static const Fields all = [] {
    Fields fields;
    addBatch(fields);
    addParallel(fields);
    addOptimizer(fields);
    return fields;
  }();
  return all;
}

const io::ValueRange &config::rangeOf(const std::string &key) {
  const Fields &fields = settingFields();
  return std::find_if(
             fields.begin(), fields.end(),
             [&](const SettingField &field) { return field.key == key; })
      ->range;
}
