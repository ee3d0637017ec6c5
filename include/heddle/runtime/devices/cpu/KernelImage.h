//===- KernelImage.h - The kernels of a plan, ready to run ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RUNTIME_DEVICES_CPU_KERNELIMAGE_H
#define HEDDLE_RUNTIME_DEVICES_CPU_KERNELIMAGE_H

#include "heddle/runtime/core/KernelFunction.h"

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace heddle::rt {

/// An ELF shared object of x86-64, mapped from a buffer. It may refer to its
/// own symbols and to memcpy, memmove and memset, and to nothing else.
class KernelImage {
public:
  KernelImage() = default;
  /// Maps and relocates the object in `data`; the buffer is not kept. Throws a
  /// UserError (H0384) when it is not such an object.
  KernelImage(const void *data, size_t size);
  KernelImage(KernelImage &&other) noexcept;
  KernelImage &operator=(KernelImage &&other) noexcept;
  ~KernelImage();

  /// The kernel of that name, or null.
  KernelFunction find(const std::string &name) const;
  /// Gives the name to a function of this process, which then takes the place
  /// of the image's own.
  void define(const std::string &name, KernelFunction function);

private:
  char *base = nullptr;
  size_t bytes = 0;
  std::unordered_map<std::string, KernelFunction> symbols;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_KERNELIMAGE_H
