//===- Parallel.h - Settings that depend on model or cluster ----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Completes and checks settings once the model and the cluster are known.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_PARALLEL_H
#define HEDDLE_IMPORT_PARALLEL_H

#include "heddle/Cost/ClusterCost.h"
#include "heddle/Import/ModelSpec.h"

namespace heddle::config {

/// Completes settings of the mesh: virtual stages imply the schedule
/// `interleaved`, and a single pipeline stage has no schedule. Throws H0115 if
/// tokens cannot be divided among their ranks, H0119 if there are more stages
/// than layers, and H0111 for an impossible schedule.
void settleParallel(ResolvedSettings &settings, const ModelSpec &spec);

/// Throws H0145 if a pattern of `--keep-16bit` matches no parameter's name,
/// neither the model's nor the files'.
void checkKept(const ResolvedSettings &settings, const ModelSpec &spec);

/// Completes settings that depend on the mode and the model: lengths of rows
/// and of sequences, bf16 for files in bf16, and the type of the cache. Throws
/// H0126, H0128, H0129 and H0131 for settings that the mode does not support.
void settleServing(ResolvedSettings &settings, const ModelSpec &spec);

/// Resolves `quantizeActivations` if it is Auto: int8 activations where they
/// are faster. Returns whether it was Auto.
bool settleActivations(Settings &values);

/// Returns a warning, with the reason, if quantized weights of the files must
/// be dequantized. Returns "" if they need not be, or if the user has chosen
/// how weights are quantized.
std::string warnOfCodes(const ResolvedSettings &settings,
                        const ModelSpec &spec);

/// Sets the sizes of ZeRO 3 that are "auto" as Hugging Face's Trainer does,
/// from the model's width.
void fillFromModel(ResolvedSettings &settings, const ModelSpec &spec);

/// Sets the learning rate of Hugging Face's Trainer for fine-tuning, unless
/// flags or files give a rate or an optimizer.
void settleRate(ResolvedSettings &settings, const ModelSpec &spec);

/// A line that lists important defaults of a training run which the user has
/// not chosen. It is "" if the user has chosen learning rate, length of rows
/// and batch. It is also "" for random weights, unless rows are shorter than
/// the model's positions by default.
std::string noteOfDefaults(const ResolvedSettings &settings,
                           const ModelSpec &spec);

/// The machines of a cluster file.
struct Cluster : cost::Cluster {
  std::string file;
  std::string json; ///< The file's content, as `parseCluster` reads it.
  SourceLocation nodesLocation, ranksLocation;
  std::vector<ExplainRow> rows; ///< A verdict on each key.
};

/// Reads a cluster file (docs/configuration.md). Throws H0101 to H0107 for an
/// invalid file, and H0110 for numbers out of range.
Cluster readCluster(const std::string &path);
/// Parses the text of a cluster file. Errors name `file`.
Cluster parseCluster(const std::string &json, const std::string &file);

/// Checks the mesh against the cluster. Throws H0227 if the mesh has more ranks
/// than the cluster. Throws it too if a tensor group, which communicates in
/// every layer, is on several nodes. Returns a warning if a sequence group,
/// which does so too, is on several nodes; otherwise "".
std::string checkCluster(const Settings &settings, const Cluster &cluster);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_PARALLEL_H
