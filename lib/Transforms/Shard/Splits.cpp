//===- Splits.cpp - Whether ranks can split a dimension -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Splits.h"
#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;

/// For an error message: lists the numbers of ranks over which `factor` (a set
/// of dimensions that are split alike) can be split.
static std::string possibleSplits(const dist::Factor &factor) {
  int64_t last = dist::largestSplit(factor, factor.size);
  if (factor.units.empty())
    return "at most " + std::to_string(last);
  std::string text = "1";
  for (int64_t parts = 2; parts <= last; ++parts)
    if (dist::canSplit(factor, parts))
      text += (parts == last ? " or " : ", ") + std::to_string(parts);
  return text;
}

/// Emits the error H0130, which says that the mesh axes cannot split these
/// dimensions (`factor`), and which numbers of ranks can.
static LogicalResult refuse(Operation *op, const dist::Factor &factor,
                            ArrayRef<Attribute> axes, dist::MeshOp mesh) {
  std::string names, sizes;
  for (Attribute axis : axes) {
    std::string name = cast<StringAttr>(axis).getValue().str();
    StringRef between = names.empty() ? "" : " x ";
    sizes += (between + name + "=" + Twine(mesh.getAxisSize(name))).str();
    names += (between + name).str();
  }
  auto error = op->emitError("H0130: ")
               << sizes << " cannot split " << factor.size << " "
               << (factor.units.empty() ? "elements" : factor.units) << " of "
               << op->getName();
  error.attachNote() << "help: let " << names << " be "
                     << possibleSplits(factor);
  return error;
}

bool shard::splitsTable(const dist::ShardingRule &rule, Value ids,
                        int64_t ranks) {
  int64_t rows = rule.indexOf(dist::FactorRole::Vocabulary);
  return !ids.getDefiningOp<nn::PositionsOp>() &&
         dist::canSplit(rule.factors[rows], ranks);
}

LogicalResult shard::verifySplits(Operation *op, const dist::ShardingRule &rule,
                                  ArrayRef<SmallVector<Attribute>> factors,
                                  dist::MeshOp mesh) {
  for (auto [factor, axes] : llvm::zip(rule.factors, factors)) {
    int64_t parts = 1;
    for (Attribute axis : axes)
      parts *= mesh.getAxisSize(cast<StringAttr>(axis).getValue());
    if (!dist::canSplit(factor, parts))
      return refuse(op, factor, axes, mesh);
  }
  return success();
}
