//===- PtxImage.h - The kernels of a binary for NVIDIA GPUs -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The section `.heddle.kernels` of a binary for a GPU: PTX texts and what is
// needed to check them, as JSON. `plan::Kernel::text` is the index of a
// kernel's text. No LLVM header may be included here.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_PLANFORMAT_PTXIMAGE_H
#define HEDDLE_PLANFORMAT_PTXIMAGE_H

#include "heddle/PlanFormat/Plan.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::plan {

/// A kernel that is as simple as possible (one thread computes each element),
/// generated from the same MLIR operations as an optimized kernel. The command
/// `check` of a compiled binary runs both kernels on the GPU with the same
/// arguments and compares the results. The plain kernel takes the arguments of
/// the optimized one, then one buffer for each result, because it computes no
/// result in place of an argument.
struct PlainKernel {
  /// How `check` fills an argument: a tensor gets random numbers from `low` to
  /// `high`, and a scalar gets `low`. If `step` is not 0, element i of a tensor
  /// of integers is not random: it is `high` minus i times `step`, modulo the
  /// number of integers from `low` to `high`. If these two numbers are coprime,
  /// as many elements are distinct as possible.
  struct Argument {
    bool isScalar = false;
    DType type = DType::F32;
    int64_t elements = 1; ///< The number of elements, padding of rows included.
    double low = -1, high = 1;
    int64_t step = 0;
  };
  struct Result {
    DType type = DType::F32;
    int64_t elements = 1; ///< The number of elements, padding of rows included.
    /// The number of elements of a row of the result, and the result's leading
    /// dimension.
    int64_t columns = 1, leadingDimension = 1;
    /// The index of the argument in whose memory the kernel computes this
    /// result; -1: the result has memory of its own.
    int64_t tie = -1;
    /// The largest difference that `check` accepts between the results of this
    /// simple kernel and of the optimized kernel; 0: they must be equal.
    double tolerance = 0;
  };
  std::string text; ///< The PTX of this simple kernel.
  /// The launches of this simple kernel, each of which computes one tensor. To
  /// save time, `check` may launch only the thread blocks that compute the
  /// first and the last elements of that tensor.
  std::vector<GridLaunch> launches;
  /// For each launch, how many terms of a sum a thread adds up, as a measure of
  /// the thread's work. The command `check` may limit the terms of a launch. It
  /// then launches fewer thread blocks if a thread adds up more terms.
  std::vector<int64_t> terms;
  int64_t scratchBytes = 0;
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

struct PtxImage {
  std::vector<std::string> texts;
  /// The machine code that ptxas has made of each PTX text. The list is empty,
  /// or has empty strings, if there was no ptxas.
  std::vector<std::string> cubins;
  std::vector<PlainKernel> plain; ///< The plain kernel for each text.
  /// The image of an ELF shared object with the kernels for the host's cores;
  /// empty if there are none.
  std::string host;
};

std::string writePtxImage(const PtxImage &image);
/// Parses an image. Returns nullopt if the bytes are not a valid image.
std::optional<PtxImage> readPtxImage(std::string_view bytes);

std::string writePlainKernel(const PlainKernel &kernel);
/// Parses the JSON of a PlainKernel. Returns nullopt if the text is malformed.
std::optional<PlainKernel> readPlainKernel(std::string_view text);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PTXIMAGE_H
