//===- Parts.cpp - Checks types of a rank's shards ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Parts.h"
#include "heddle/PlanFormat/Mesh.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::dist;

int64_t dist::groupSize(const Strategy &strategy, ArrayAttr axes) {
  plan::AxisNames names;
  for (StringRef axis : axes.getAsValueRange<StringAttr>())
    names.push_back(axis.str());
  return meshOf(strategy).groupSize(names);
}

/// The size of a rank's shard of a dimension of `extent` elements that consists
/// of `segments`, such as q, k and v side by side. Each segment is split by
/// itself. Returns -1 if the sizes of the segments do not add up to `extent`.
static int64_t partOf(int64_t extent, ArrayRef<int64_t> segments,
                      int64_t ranks) {
  int64_t part = 0, left = extent;
  for (int64_t segment : segments) {
    if (segment < 0 || segment > left)
      return -1;
    left -= segment;
    part += (segment + ranks - 1) / ranks;
  }
  return left == 0 ? part : -1;
}

LogicalResult dist::verifyPart(Operation *op, ShapedType part, Type wholeType,
                               TensorShardingAttr sharding,
                               DenseI64ArrayAttr segments,
                               const Strategy &strategy) {
  auto whole = dyn_cast<RankedTensorType>(wholeType);
  auto dims = sharding ? sharding.getDims().getValue() : ArrayRef<Attribute>();
  bool fits = whole && whole.hasStaticShape() &&
              whole.getElementType() == part.getElementType() &&
              whole.getRank() == part.getRank() &&
              static_cast<int64_t>(dims.size()) <= whole.getRank();
  for (int64_t dim = 0; fits && dim < whole.getRank(); ++dim) {
    bool split = dim < static_cast<int64_t>(dims.size());
    if (split && failed(verifyAxes(op, cast<ArrayAttr>(dims[dim]))))
      return failure();
    int64_t extent = whole.getDimSize(dim);
    int64_t ranks = split ? groupSize(strategy, cast<ArrayAttr>(dims[dim])) : 1;
    bool inSegments =
        segments && !segments.empty() && dim == whole.getRank() - 1;
    fits = part.getDimSize(dim) ==
           partOf(extent, inSegments ? segments.asArrayRef() : ArrayRef(extent),
                  ranks);
  }
  if (fits)
    return success();
  auto error = op->emitOpError("has ")
               << part << ", which is no rank's part of " << wholeType;
  if (sharding)
    error << " split by " << sharding;
  if (segments)
    error << " with segments " << segments;
  return error;
}

LogicalResult dist::verifyPorts(
    Operation *op, DictionaryAttr ports,
    llvm::function_ref<std::optional<ShapedType>(StringRef)> typeOf,
    const Strategy &strategy) {
  if (!ports)
    return success();
  for (NamedAttribute port : ports) {
    std::optional<ShapedType> type = typeOf(port.getName().getValue());
    if (!type)
      return op->emitOpError("splits the port ")
             << port.getName() << ", which is not there";
    auto entry = dyn_cast<DictionaryAttr>(port.getValue());
    auto whole = entry ? entry.getAs<TypeAttr>("whole") : TypeAttr();
    auto sharding =
        entry ? entry.getAs<TensorShardingAttr>("sharding") : nullptr;
    if (!whole || !sharding)
      return op->emitOpError("does not say how the port ")
             << port.getName() << " is split: it needs whole and sharding";
    if (*type && failed(verifyPart(op, *type, whole.getValue(), sharding,
                                   entry.getAs<DenseI64ArrayAttr>("segments"),
                                   strategy)))
      return failure();
  }
  return success();
}
