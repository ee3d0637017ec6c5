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

/// Completes settings of the mesh: with virtual stages, the schedule becomes
/// `interleaved`; with a single pipeline stage, there is no schedule. Throws
/// H0115 if the tokens of a row cannot be divided among the sequence ranks,
/// H0119 if there are more stages than layers, and H0111 for an impossible
/// schedule.
void settleParallel(ResolvedSettings &settings, const ModelSpec &spec);

/// Throws the error of `layerDrops` for the settings, if there is one. `layers`
/// is the model's number of layers; 0 if it is not known.
void checkLayerDrop(const ResolvedSettings &settings, int64_t layers);

/// Throws H0145 if a pattern of `--keep-16bit` matches no parameter. A pattern
/// is compared with the model's names of parameters and with the names in the
/// weight files.
void checkKept(const ResolvedSettings &settings, const ModelSpec &spec);

/// Completes settings that depend on the mode and the model: the lengths of
/// rows and sequences, the type of the cache, and bf16 if the weight files are
/// in bf16. Throws H0126, H0128, H0129 and H0131 for settings that the mode
/// does not support.
void settleServing(ResolvedSettings &settings, const ModelSpec &spec);

/// Replaces `quantizeActivations` if it is Auto: by int8 activations if they
/// are faster, else by none. Returns whether it was Auto.
bool settleActivations(Settings &values);

/// Returns a warning, with the reason, if quantized weights of the files must
/// be dequantized. Returns "" if they can be kept, or if the user has chosen
/// how to quantize weights.
std::string warnOfCodes(const ResolvedSettings &settings,
                        const ModelSpec &spec);

/// Sets the settings of ZeRO 3 that a ds_config.json gives as "auto", such as
/// the prefetch bucket size. Their values follow from the model's width, as in
/// Hugging Face's Trainer.
void fillFromModel(ResolvedSettings &settings, const ModelSpec &spec);

/// Sets the learning rate that Hugging Face's Trainer uses for fine-tuning.
/// Does nothing if flags or files give a learning rate or an optimizer.
void settleRate(ResolvedSettings &settings, const ModelSpec &spec);

/// Returns a line for the user that lists important defaults of a training run.
/// It is "" if the user has chosen the learning rate, the length of rows and
/// the batch. For random weights it is also "", unless the default length of
/// rows is less than the model's number of positions.
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
/// than the cluster has, or if a tensor group is on several nodes, since tensor
/// groups communicate in every layer. Sequence groups communicate in every
/// layer, too: if one is on several nodes, returns a warning. Otherwise returns
/// "".
std::string checkCluster(const Settings &settings, const Cluster &cluster);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_PARALLEL_H
