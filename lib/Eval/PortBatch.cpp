//===- PortBatch.cpp - Splits a batch over runs and ranks -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes which part of a whole input a rank gets in one run, and joins the
// outputs of all runs and ranks.
//
//===----------------------------------------------------------------------===//

#include "PortBatch.h"

#include "heddle/Eval/Files.h"

using namespace mlir;

namespace heddle::eval {

Tensor concatenate(const Tensor &first, const Tensor &second) {
  std::vector<int64_t> shape = first.shape().vec();
  shape.front() += second.shape().front();
  Tensor result(first.kind(), shape);
  result.copyFrom(first, 0, 0, first.numElements());
  result.copyFrom(second, 0, first.numElements(), second.numElements());
  return result;
}

std::optional<Tensor> partOfInput(const Tensor &value,
                                  llvm::ArrayRef<int64_t> shape, int64_t part,
                                  int64_t parts) {
  int64_t wanted = 1;
  for (int64_t dim : shape)
    wanted *= dim;
  if (value.numElements() == wanted)
    return value.reshaped(shape);
  if (value.numElements() != wanted * parts)
    return std::nullopt;
  return value.reshaped({parts, wanted}).slice(part, 1).reshaped(shape);
}

/// Returns the entry in `ports` that says how ranks split the program's input
/// or output `name`; null if ranks do not split it.
static DictionaryAttr splitOf(DictionaryAttr ports, llvm::StringRef name) {
  return ports ? ports.getAs<DictionaryAttr>(name) : DictionaryAttr();
}

ShapedType wholeType(DictionaryAttr ports, llvm::StringRef name,
                     ShapedType type) {
  DictionaryAttr split = splitOf(ports, name);
  return split ? cast<ShapedType>(split.getAs<TypeAttr>("whole").getValue())
               : type;
}

std::optional<int64_t> partsOf(nn::PortAttr port, Type type,
                               DictionaryAttr ports, const TensorMap &inputs) {
  auto found = inputs.find(port.getKey().str());
  if (!port.isOfBatch() || found == inputs.end())
    return std::nullopt;
  ShapedType whole = wholeType(ports, port.getKey(), cast<ShapedType>(type));
  return found->second.numElements() / whole.getNumElements();
}

plan::Placement placementOf(ShapedType whole, dist::TensorShardingAttr sharding,
                            DenseI64ArrayAttr segments) {
  plan::Placement placement;
  placement.whole = whole.getShape().vec();
  for (auto axes : sharding.getDims().getAsRange<ArrayAttr>())
    placement.split.push_back(planir::namesOf(axes));
  if (segments)
    placement.segments = segments.asArrayRef().vec();
  return placement;
}

static plan::Placement placementOf(DictionaryAttr split) {
  return placementOf(
      cast<ShapedType>(split.getAs<TypeAttr>("whole").getValue()),
      split.getAs<dist::TensorShardingAttr>("sharding"),
      split.getAs<DenseI64ArrayAttr>("segments"));
}

FailureOr<Tensor> inputOf(Operation *at, llvm::StringRef name, ShapedType type,
                          DictionaryAttr ports, const TensorMap &inputs,
                          const BatchSlice &batch, const Rank &rank) {
  auto found = inputs.find(name.str());
  if (found == inputs.end()) {
    InFlightDiagnostic error = at->emitError("input '")
                               << name << "' is missing";
    error.attachNote() << "help: name a file with the program's inputs with "
                          "--inputs";
    return error;
  }
  ShapedType whole = wholeType(ports, name, type);
  if (ElementKind kind = found->second.kind();
      isFloat(kind) != isa<FloatType>(whole.getElementType())) {
    InFlightDiagnostic error = at->emitError("input '")
                               << name << "' has type " << safetensorsName(kind)
                               << " and does not fit " << Type(whole);
    error.attachNote() << "help: store it as "
                       << (isFloat(kind) ? "I32 or I64" : "F32");
    return error;
  }
  std::optional<Tensor> value =
      partOfInput(found->second, whole.getShape(), batch.part, batch.parts);
  if (!value)
    return at->emitError("input '") << name << "' does not fit " << Type(whole);
  DictionaryAttr split = splitOf(ports, name);
  if (!split)
    return *value;
  std::vector<rt::ElementRange> runs;
  Diagnostic error;
  if (!partRuns(placementOf(split), type.getShape().vec(), rank.mesh(),
                rank.number(), runs, error))
    return at->emitError("input '") << name << "': " << error.message;
  Tensor part(value->kind(), type.getShape());
  for (const rt::ElementRange &run : runs)
    part.copyFrom(*value, run.whole, run.local, run.count);
  return part;
}

FailureOr<bool> addPart(Operation *at, const std::string &name,
                        const Tensor &part, DictionaryAttr ports,
                        const plan::Mesh &mesh, int64_t rank,
                        TensorMap &outputs) {
  DictionaryAttr split = splitOf(ports, name);
  if (!split)
    return false;
  plan::Placement placement = placementOf(split);
  std::vector<int64_t> shape = placement.whole;
  int64_t elements = 1;
  for (auto [extent, axes] : llvm::zip(shape, placement.split)) {
    extent = llvm::divideCeil(extent, mesh.groupSize(axes));
    elements *= extent;
  }
  std::vector<rt::ElementRange> runs;
  Diagnostic error;
  if (elements != part.numElements())
    return at->emitError("output '") << name << "' is no part of its whole";
  if (!partRuns(placement, shape, mesh, rank, runs, error))
    return at->emitError("output '") << name << "': " << error.message;
  Tensor &whole =
      outputs.try_emplace(name, Tensor(part.kind(), placement.whole))
          .first->second;
  for (const rt::ElementRange &run : runs)
    whole.copyFrom(part, run.local, run.whole, run.count);
  return true;
}

void addOutput(const std::string &name, const Tensor &value,
               TensorMap &outputs) {
  auto [position, isNew] = outputs.try_emplace(name, value);
  if (isNew)
    return;
  Tensor &before = position->second;
  if (value.rank() > 0)
    before = concatenate(before, value);
  else
    before.mutableFloats().front() += value.floats().front();
}

void addOutputs(ArrayRef<PortValue> given, const BatchSlice &batch,
                TensorMap &outputs) {
  std::string loss = stringifyPortRole(nn::PortRole::Loss).str();
  double weight = 1;
  for (const PortValue &value : given)
    if (value.port.getRole() == nn::PortRole::LossWeight && batch.parts > 1)
      weight = value.value.floats().front();
  for (const PortValue &value : given) {
    Tensor scaled = value.value;
    if (value.port.getRole() == nn::PortRole::Loss)
      scaled.mutableFloats().front() *= weight;
    addOutput(value.port.getKey().str(), scaled, outputs);
  }
  auto sum = outputs.find(loss);
  if (sum == outputs.end() || batch.parts == 1 || batch.part + 1 < batch.parts)
    return;
  auto total = outputs.find(stringifyPortRole(nn::PortRole::LossWeight).str());
  double count = total == outputs.end() ? static_cast<double>(batch.parts)
                                        : total->second.floats().front();
  sum->second.mutableFloats().front() /= count == 0 ? 1 : count;
}

} // namespace heddle::eval
