//===- Parallel.h - Whether a mesh fits model and cluster -------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_IMPORT_PARALLEL_H
#define HEDDLE_IMPORT_PARALLEL_H

#include "heddle/Cost/ClusterCost.h"
#include "heddle/Import/ModelSpec.h"

namespace heddle::config {

/// Settles what follows from the mesh and the model: several virtual stages
/// mean the schedule interleaved, and one pipeline stage has no schedule.
/// Throws H0115 when tokens do not divide by the ranks that split them, H0119
/// when there are more stages than layers, H0111 when there is no such
/// schedule.
void settleParallel(ResolvedSettings &settings, const ModelSpec &spec);

/// Throws H0145 where `--keep-16bit` has a pattern that no parameter of the
/// model has the name of, its own or that of the files.
void checkKept(const ResolvedSettings &settings, const ModelSpec &spec);

/// Gives what the mode leaves to the model: the tokens of a row and of a text,
/// the precision of files in bf16, and the type of the cache. Throws H0126,
/// H0128, H0129 and H0131 where the settings are none of a binary of that mode.
void settleServing(ResolvedSettings &settings, const ModelSpec &spec);

/// Whether rows of products were to be codes where that pays, which is chosen.
bool settleActivations(Settings &values);

/// Says that codes of the files cannot stay what they are, and why; "" where
/// they can, or the user has said what becomes of them.
std::string warnOfCodes(const ResolvedSettings &settings,
                        const ModelSpec &spec);

/// Gives sizes of ZeRO 3 that are "auto" what Hugging Face's Trainer makes of
/// the model's width.
void fillFromModel(ResolvedSettings &settings, const ModelSpec &spec);

/// Gives weights that are loaded to be trained further the learning rate of
/// Hugging Face's Trainer, unless flags or files say a rate or an optimizer.
void settleRate(ResolvedSettings &settings, const ModelSpec &spec);

/// The line that names what nobody chose of what matters most to a training run
/// with loaded weights, or with shorter rows than the model has positions; ""
/// where rate, rows and batch were all chosen.
std::string noteOfDefaults(const ResolvedSettings &settings,
                           const ModelSpec &spec);

/// The machines that a plan is for, as a cluster file describes them.
struct Cluster : cost::Cluster {
  std::string file;
  std::string json; ///< As `parseCluster` reads it.
  SourceLocation nodesLocation, ranksLocation;
  std::vector<ExplainRow> rows; ///< A verdict on every key.
};

/// Reads a cluster file (docs/configuration.md). Throws H0101 to H0107 for what
/// is not one, H0110 for numbers that are out of range.
Cluster readCluster(const std::string &path);
/// The same from its text; errors name `file`.
Cluster parseCluster(const std::string &json, const std::string &file);

/// Throws H0227 when the mesh has more ranks than the cluster, or when tensor
/// ranks, which speak with each other in every layer, are on several nodes.
/// The warning, or "": seq ranks, which do so too, are on several nodes.
std::string checkCluster(const Settings &settings, const Cluster &cluster);

} // namespace heddle::config

#endif // HEDDLE_IMPORT_PARALLEL_H
