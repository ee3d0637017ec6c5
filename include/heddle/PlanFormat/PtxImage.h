//===- PtxImage.h - The kernels of a binary for NVIDIA GPUs -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What stands in `.heddle.kernels` of a binary for a GPU: the texts of PTX, as
// JSON. `plan::Kernel::text` says which of them holds a kernel. No LLVM header
// may be included here.
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

/// A kernel once more, made from the same body as plainly as it can be; what
/// may be given to both; and how far apart their results may be. It takes the
/// arguments of the kernel, then all results: none takes the place of an
/// argument.
struct PlainKernel {
  /// A tensor of numbers from `low` to `high`, or a scalar, which is `low`.
  struct Argument {
    bool isScalar = false;
    DType type = DType::F32;
    int64_t elements = 1; ///< Gaps between rows included.
    double low = -1, high = 1;
  };
  struct Result {
    DType type = DType::F32;
    int64_t elements = 1; ///< Gaps between rows included.
    /// Those of a row, and from the begin of one to that of the next.
    int64_t columns = 1, pitch = 1;
    int64_t tie = -1; ///< The argument whose place the kernel takes.
    /// What an error may be; 0: there may be none.
    double tolerance = 0;
  };
  std::string text; ///< PTX.
  /// A launch whose grid has fewer columns computes the first elements of its
  /// tensor and the last ones.
  std::vector<GridLaunch> launches;
  std::vector<int64_t> terms; ///< That a thread of each launch sums.
  int64_t scratchBytes = 0;
  std::vector<Argument> arguments;
  std::vector<Result> results;
};

struct PtxImage {
  std::vector<std::string> texts;
  /// Each text as ptxas assembles it for the chip that it names; empty, or an
  /// empty string for each, where there was no ptxas.
  std::vector<std::string> cubins;
  std::vector<PlainKernel> plain; ///< Of each text's kernel.
  /// The image of an ELF shared object with the kernels that the cores beside
  /// the GPU run; empty where there are none.
  std::string host;
};

std::string writePtxImage(const PtxImage &image);
/// None when the bytes are no such image.
std::optional<PtxImage> readPtxImage(std::string_view bytes);

std::string writePlainKernel(const PlainKernel &kernel);
/// None when the text is none.
std::optional<PlainKernel> readPlainKernel(std::string_view text);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PTXIMAGE_H
