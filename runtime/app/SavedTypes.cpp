//===- SavedTypes.cpp - Element types of saved weights --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the element types of saved tensors, by default those of the files
// from which they were loaded. Converts tensors block by block. If the
// conversion rounds a tensor, its exact values are saved too.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/SavedTypes.h"
#include "Warnings.h"
#include "heddle/runtime/app/StateTensors.h"

#include <algorithm>
#include <cmath>

using namespace heddle;
using namespace heddle::rt;

/// Elements converted at a time.
static constexpr int64_t blockElements = int64_t(1) << 16;

/// Whether type `to` represents every value of type `from`.
static bool holds(const std::string &to, const std::string &from) {
  return to == from || to == "F64" ||
         (to == "F32" && (from == "BF16" || from == "F16"));
}

SavedTypes SavedTypes::ofCheckpoint(const std::string &directory) {
  SavedTypes types(io::openWeights(directory));
  if (std::optional<io::WeightSet> exact = io::openMasters(directory))
    for (const io::TensorInfo &info : exact->tensors())
      types.masters.insert(info.name);
  return types;
}

/// Returns the type that a tensor has in the loaded files. Returns "" if no
/// file has the tensor, or if its type is not a float type.
static std::string typeInFiles(const std::optional<io::WeightSet> &files,
                               const std::string &tensor) {
  const io::TensorInfo *info = files ? findTensor(*files, tensor) : nullptr;
  return info && io::isFloatType(info->dtype) ? info->dtype : "";
}

std::string SavedTypes::typeOf(const io::SharedTensor &tensor) const {
  if (!io::isFloatType(tensor.dtype))
    return tensor.dtype;
  if (!forAll.empty())
    return forAll;
  std::string type = typeInFiles(files, tensor.name);
  return type.empty() ? tensor.dtype : type;
}

/// Returns a type that represents the tensor's current values exactly. After
/// training, this is the type of the plan's state, because an update changes a
/// weight in all bits of that type. A weight that is not trained still has the
/// file's values, so the file's type suffices.
std::string SavedTypes::typeOfValues(const io::SharedTensor &tensor,
                                     bool isTrained) const {
  std::string type = typeInFiles(files, tensor.name);
  return isTrained || type.empty() || masters.count(tensor.name) != 0
             ? tensor.dtype
             : type;
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

namespace {

/// Converts one tensor while it is written.
class Converter {
public:
  Converter(const io::SharedTensor &tensor, std::string to)
      : name(tensor.name), from(tensor.dtype), to(std::move(to)) {}

  void write(int64_t offset, const void *data, int64_t bytes,
             const io::SharedTensor::Sink &sink);
  /// Warns of values that were too large for the type.
  void finish() const;

private:
  void limit(const char *source, int64_t count);

  std::string name, from, to;
  std::vector<char> block;
  int64_t limited = 0;
};

} // namespace

/// Replaces finite values that overflowed to infinity by the largest value of
/// the type: programs refuse weights that are not finite.
void Converter::limit(const char *source, int64_t count) {
  int64_t width = io::dtypeBits(to) / 8, step = io::dtypeBits(from) / 8;
  const float most = to == "F16" ? 65504.0f : 0x1.FEp127f;
  for (int64_t i = 0; i < count; ++i) {
    float before = 0, after = 0;
    io::convertElements(source + i * step, from, &before, "F32", 1);
    io::convertElements(block.data() + i * width, to, &after, "F32", 1);
    if (!std::isfinite(before) || std::isfinite(after))
      continue;
    float nearest = std::copysign(most, before);
    io::convertElements(&nearest, "F32", block.data() + i * width, to, 1);
    ++limited;
  }
}

void Converter::write(int64_t offset, const void *data, int64_t bytes,
                      const io::SharedTensor::Sink &sink) {
  int64_t width = io::dtypeBits(to) / 8, step = io::dtypeBits(from) / 8;
  const char *source = static_cast<const char *>(data);
  for (int64_t done = 0, all = bytes / step; done < all;) {
    int64_t count = std::min(blockElements, all - done);
    block.resize(count * width);
    io::convertElements(source + done * step, from, block.data(), to, count);
    if (io::firstNonFinite(block.data(), to, count) >= 0)
      limit(source + done * step, count);
    sink((offset / step + done) * width, block.data(), count * width);
    done += count;
  }
}

void Converter::finish() const {
  if (limited == 0)
    return;
  Diagnostic problem;
  problem.code = "H0417";
  problem.message = std::to_string(limited) + " values of the tensor \"" +
                    name + "\" are too large for " + to +
                    ": its largest value is saved in their place";
  problem.help = "save with --save-dtype BF16 or F32; --resume reads the exact "
                 "values";
  warn(problem);
}

/// Returns a tensor like `tensor` whose elements are converted to `dtype` when
/// it is written.
static io::SharedTensor convert(const io::SharedTensor &tensor,
                                const std::string &dtype) {
  io::SharedTensor result = tensor;
  result.dtype = dtype;
  if (tensor.pieces)
    result.pieces = [tensor, dtype](const io::SharedTensor::Sink &sink) {
      Converter converter(tensor, dtype);
      tensor.pieces([&](int64_t offset, const void *data, int64_t bytes) {
        converter.write(offset, data, bytes, sink);
      });
      converter.finish();
    };
  return result;
}

void SavedTypes::apply(io::CheckpointContents &contents,
                       const std::set<std::string> &trained) const {
  std::map<std::string, int64_t> elements; // Number of elements by type.
  std::set<std::string> exact; // Tensors whose exact values are saved already.
  for (const io::SharedTensor &tensor : contents.masters)
    exact.insert(tensor.name);
  for (io::SharedTensor &tensor : contents.model) {
    std::string type = typeOf(tensor);
    bool isTrained = trained.count(tensor.name) != 0;
    if (!holds(type, typeOfValues(tensor, isTrained)) &&
        !exact.count(tensor.name))
      contents.masters.push_back(tensor);
    if (type != tensor.dtype)
      tensor = convert(tensor, type);
    int64_t count = 1;
    for (int64_t extent : tensor.shape)
      count *= extent;
    elements[type] += count;
  }
  auto most = std::max_element(
      elements.begin(), elements.end(),
      [](const auto &a, const auto &b) { return a.second < b.second; });
  if (most != elements.end())
    io::setConfigType(contents.config, most->first);
}
