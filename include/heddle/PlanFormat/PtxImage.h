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

/// A simple version of a kernel, generated from the same body. `check` runs the
/// kernel and its simple version with the same arguments and compares the
/// results. The simple version takes the kernel's arguments, then one buffer
/// for each result, because it computes no result in place of an argument.
struct PlainKernel {
  /// How `check` fills an argument: a tensor gets random numbers from `low` to
  /// `high`, and a scalar gets `low`.
  struct Argument {
    bool isScalar = false;
    DType type = DType::F32;
    int64_t elements = 1; ///< The number of elements, padding of rows included.
    double low = -1, high = 1;
  };
  struct Result {
    DType type = DType::F32;
    int64_t elements = 1; ///< The number of elements, padding of rows included.
    /// The number of elements of a row, and the leading dimension.
    int64_t columns = 1, leadingDimension = 1;
    /// The index of the argument in whose memory the kernel computes this
    /// result; -1: the result has memory of its own.
    int64_t tie = -1;
    /// The largest difference of results that `check` accepts; 0: they must be
    /// equal.
    double tolerance = 0;
  };
  std::string text; ///< The PTX of the simple version.
  /// The launches of the simple version. Each computes one tensor. To save
  /// time, `check` may launch only the blocks that compute the first and the
  /// last elements of that tensor.
  std::vector<GridLaunch> launches;
  /// For each launch, how many terms a thread adds up, as a measure of its
  /// work. `check` launches fewer blocks if a thread has more work.
  std::vector<int64_t> terms;
  int64_t scratchBytes = 0;
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

struct PtxImage {
  std::vector<std::string> texts;
  /// The machine code of each text, which ptxas has made for the text's chip.
  /// The list is empty, or has empty strings, if there was no ptxas.
  std::vector<std::string> cubins;
  std::vector<PlainKernel> plain; ///< The simple version for each text.
  /// The image of an ELF shared object with the kernels for the host's cores;
  /// empty if there are none.
  std::string host;
};

std::string writePtxImage(const PtxImage &image);
/// Parses an image. Returns nullopt if the bytes are not a valid image.
std::optional<PtxImage> readPtxImage(std::string_view bytes);

std::string writePlainKernel(const PlainKernel &kernel);
/// Parses a simple version of a kernel. Returns nullopt if the text is
/// malformed.
std::optional<PlainKernel> readPlainKernel(std::string_view text);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PTXIMAGE_H
