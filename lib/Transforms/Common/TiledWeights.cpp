//===- TiledWeights.cpp - The weights that --tile names -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Transforms/Common/TiledWeights.h"

using namespace mlir;
using namespace heddle;

FailureOr<TiledWeights> TiledWeights::of(nn::ModelOp model) {
  constexpr int64_t mostTiles = 1024;
  TiledWeights weights;
  for (const std::string &text : model.getStrategy().getValue().tile) {
    auto [name, number] = StringRef(text).rsplit('=');
    int64_t tiles = 0;
    if (name.empty() || number.getAsInteger(10, tiles) || tiles < 2 ||
        tiles > mostTiles) {
      InFlightDiagnostic error = model.emitError("H0148: \"")
                                 << text << "\" of --tile is no PATTERN=N";
      error.attachNote() << "help: give 2 to " << mostTiles
                         << " tiles, as in h.*.mlp.*=4";
      return LogicalResult(error);
    }
    llvm::Expected<llvm::GlobPattern> pattern = llvm::GlobPattern::create(name);
    if (!pattern)
      return LogicalResult(model.emitError("H0148: \"")
                           << text << "\" of --tile is no pattern: "
                           << llvm::toString(pattern.takeError()));
    weights.entries.push_back({name.str(), std::move(*pattern), tiles});
  }
  return weights;
}

int64_t TiledWeights::tilesOf(StringRef parameter, Type type) const {
  int64_t tiles = 1;
  if (cast<RankedTensorType>(type).getRank() == 2)
    for (const Entry &entry : entries)
      if (entry.pattern.match(parameter))
        tiles = entry.tiles;
  return tiles;
}

SmallVector<StringRef>
TiledWeights::unmatched(ArrayRef<StringRef> parameters) const {
  SmallVector<StringRef> texts;
  for (const Entry &entry : entries)
    if (llvm::none_of(parameters, [&](StringRef parameter) {
          return entry.pattern.match(parameter);
        }))
      texts.push_back(entry.text);
  return texts;
}
