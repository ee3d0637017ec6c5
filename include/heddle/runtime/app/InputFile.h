//===- InputFile.h - Batches that a file spells out -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_APP_INPUTFILE_H
#define HEDDLE_RUNTIME_APP_INPUTFILE_H

#include "heddle/PlanFormat/Plan.h"
#include "heddle/runtime/core/Part.h"
#include "heddle/runtime/io/Safetensors.h"

#include <algorithm>

namespace heddle::rt {

/// The value of labels that Hugging Face calls -100: no label.
inline constexpr int32_t noLabel = -100;

/// The file of `--inputs`: a tensor of N rows for each input of the batch that
/// a program declares, under its name or under that of Hugging Face's batches
/// (`input_ids`, `token_type_ids`, `position_ids`; `attention_mask` for
/// `lengths`). Left out, segments are 0, lengths whole rows, positions count
/// from 0, and label weights are 1.
class InputFile {
public:
  /// Opens the file and looks at every value. Throws H0366 for a tensor that is
  /// missing or that no input takes, H0367 for another type or shape, H0369 for
  /// a value that the model does not have, for padding before tokens, and where
  /// labels for the next token are the tokens themselves.
  InputFile(const std::string &path, const plan::Plan &plan,
            plan::ProgramKind kind);

  int64_t rows() const { return numRows; }
  /// Whether some label of so many rows from the row `first` on counts.
  bool hasLabels(int64_t first, int64_t rows) const {
    return countLabels(first, std::min(rows, numRows)) > 0;
  }
  /// The labels that count in so many rows from the row `first` on, which count
  /// modulo the rows of the file.
  int64_t countLabels(int64_t first, int64_t rows) const;
  const std::string &path() const { return file; }
  /// Copies those runs of the input of that name from the row `first` on, which
  /// counts modulo the rows of the file.
  template <typename Element>
  void read(const std::string &name, int64_t first,
            const std::vector<Run> &runs, Element *target) const {
    const Tensor &tensor = tensors.at(name);
    for (const Run &run : runs)
      for (int64_t i = 0; i < run.count; ++i) {
        int64_t row = (first + (run.whole + i) / tensor.width) % numRows;
        int64_t at = row * tensor.width + (run.whole + i) % tensor.width;
        target[run.local + i] = valueAt(tensor, at, Element());
      }
  }

private:
  struct Tensor {
    plan::PortRole role = plan::PortRole::Ids;
    int64_t width = 1; ///< Elements of a row.
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
  /// The least and the greatest whole number that a tensor may have.
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

/// Throws H0309: none of the file's rows has a label.
[[noreturn]] void failNoLabel(const InputFile &file);

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_APP_INPUTFILE_H
