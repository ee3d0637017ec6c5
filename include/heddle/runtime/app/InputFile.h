//===- InputFile.h - Batches from a file of tensors -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the batches of `--inputs`, a safetensors file with every input spelled
// out, as an alternative to tokens of `--data`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_INPUTFILE_H
#define HEDDLE_RUNTIME_APP_INPUTFILE_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/RankShard.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>

namespace heddle::rt {

/// The label of a token that the loss ignores (Hugging Face's value).
inline constexpr int32_t noLabel = -100;

/// The file of `--inputs`. It has a tensor of N rows for each input of the
/// batch. A tensor has the name of the program's input, or Hugging Face's name:
/// `input_ids`, `token_type_ids`, `position_ids`, or `attention_mask` for
/// `lengths`. Missing tensors have defaults: segments are 0, rows have no
/// padding, positions count from 0, and label weights are 1.
class InputFile {
public:
  /// Opens the file and checks every value. Throws H0366 for a missing or an
  /// unknown tensor, H0367 for a wrong type or shape, and H0369 for wrong
  /// values: a value out of range, padding before tokens, or labels that each
  /// equal their own token, because they were not shifted.
  InputFile(const std::string &path, const plan::Plan &plan,
            plan::ProgramKind kind);

  int64_t rows() const { return numRows; }
  /// Whether the loss counts any label in rows [first, first + rows).
  bool hasLabels(int64_t first, int64_t rows) const {
    return countLabels(first, std::min(rows, numRows)) > 0;
  }
  /// Returns the number of labels in rows [first, first + rows) that the loss
  /// counts. After the last row of the file comes the first again.
  int64_t countLabels(int64_t first, int64_t rows) const;
  const std::string &path() const { return file; }
  /// Copies ranges of the input `name` to `target`. `runs` gives the ranges as
  /// element indices counted from row `first`. After the last row of the file
  /// comes the first again.
  template <typename Element>
  void read(const std::string &name, int64_t first,
            const std::vector<ElementRange> &runs, Element *target) const {
    const Tensor &tensor = tensors.at(name);
    for (const ElementRange &run : runs)
      for (int64_t i = 0; i < run.count; ++i) {
        int64_t row = (first + (run.whole + i) / tensor.width) % numRows;
        int64_t at = row * tensor.width + (run.whole + i) % tensor.width;
        target[run.local + i] = valueAt(tensor, at, Element());
      }
  }

private:
  struct Tensor {
    plan::PortRole role = plan::PortRole::Ids;
    int64_t width = 1; ///< Elements in a row.
    std::vector<int32_t> ints;
    std::vector<float> floats;
  };
  static int32_t valueAt(const Tensor &tensor, int64_t at, int32_t) {
    return tensor.ints[at];
  }
  static float valueAt(const Tensor &tensor, int64_t at, float) {
    return tensor.floats[at];
  }
  const Tensor *find(plan::PortRole role) const;
  /// Least and greatest integer that a tensor's elements may have.
  using Range = std::pair<int64_t, int64_t>;
  Tensor read(const io::TensorInfo &info, const io::WeightSet &file,
              plan::PortRole role, int64_t seq, Range range);
  void addUsual(const plan::Port &port, int64_t seq,
                const std::vector<int32_t> &lengths);
  std::vector<int32_t> readMask(const io::WeightSet &file, int64_t seq);
  void checkShifted(int64_t seq) const;

  std::string file;
  int64_t numRows = 0;
  std::map<std::string, Tensor> tensors;
};

/// Throws H0309: the loss ignores every label of the rows that are read,
/// because each label is -100 or has the weight 0.
[[noreturn]] void failNoLabel(const InputFile &file);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_INPUTFILE_H
