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

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::plan {

struct PtxImage {
  std::vector<std::string> texts;
};

std::string writePtxImage(const PtxImage &image);
/// None when the bytes are no such image.
std::optional<PtxImage> readPtxImage(std::string_view bytes);

} // namespace heddle::plan

#endif // HEDDLE_PLANFORMAT_PTXIMAGE_H
