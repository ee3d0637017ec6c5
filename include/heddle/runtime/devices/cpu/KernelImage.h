//===- KernelImage.h - Loads the kernels of a plan --------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small loader of ELF shared objects. A binary contains its CPU kernels as
// such an object. This loader maps it from memory, so that neither a file nor
// the system's loader is needed.
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

/// An ELF shared object for x86-64, mapped from a buffer. It may use only its
/// own symbols, memcpy, memmove and memset.
class KernelImage {
public:
  KernelImage() = default;
  /// Maps and relocates the shared object in `data`. The buffer may be freed
  /// afterwards. Throws a UserError (H0384) if it contains no valid object.
  KernelImage(const void *data, size_t size);
  KernelImage(KernelImage &&other) noexcept;
  KernelImage &operator=(KernelImage &&other) noexcept;
  ~KernelImage();

  /// The kernel with that name, or null.
  KernelFunction find(const std::string &name) const;
  /// Defines `name` as a function of this process. `find` then returns it
  /// instead of the image's kernel of that name.
  void define(const std::string &name, KernelFunction function);

private:
  char *base = nullptr;
  size_t bytes = 0;
  std::unordered_map<std::string, KernelFunction> symbols;
};

} // namespace heddle::rt

#endif // HEDDLE_RUNTIME_DEVICES_CPU_KERNELIMAGE_H
