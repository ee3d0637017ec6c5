//===- ObjectCache.h - Compiled kernels on disk -----------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_CPU_OBJECTCACHE_H
#define HEDDLE_LIB_CODEGEN_CPU_OBJECTCACHE_H

#include "heddle/Codegen/CPU/KernelCompiler.h"
#include <optional>

namespace heddle::cpu {

/// A directory with one file for each kernel that was ever compiled. A file
/// that is damaged, or cannot be read or written, counts as not there.
class ObjectCache {
public:
  /// Empty or "off": nothing is kept.
  explicit ObjectCache(llvm::StringRef directory);

  std::optional<CompiledKernel> find(const KernelSource &source) const;
  void add(const KernelSource &source, const CompiledKernel &kernel) const;

private:
  std::string pathOf(const KernelSource &source) const;

  std::string directory;
  std::string compiler; ///< Tells builds of this compiler apart.
};

} // namespace heddle::cpu

#endif // HEDDLE_LIB_CODEGEN_CPU_OBJECTCACHE_H
