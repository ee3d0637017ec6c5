//===- ObjectCache.h - The cache of compiled kernels ------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_COMMON_OBJECTCACHE_H
#define HEDDLE_LIB_CODEGEN_COMMON_OBJECTCACHE_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace heddle::codegen {

/// The cache of compiled kernels: a directory with one file for each kernel. A
/// file that is damaged or cannot be read counts as missing; failures to write
/// are ignored.
class ObjectCache {
public:
  /// `directory` is empty or "off" to disable the cache.
  explicit ObjectCache(llvm::StringRef directory);

  /// Finds the code that this build of the compiler has added to the cache
  /// under `hash`.
  std::optional<std::string> find(llvm::StringRef hash) const;
  void add(llvm::StringRef hash, llvm::StringRef code) const;

private:
  std::string pathOf(llvm::StringRef hash) const;

  std::string directory;
  std::string compiler; ///< Identifies this build of the compiler.
};

} // namespace heddle::codegen

#endif // HEDDLE_LIB_CODEGEN_COMMON_OBJECTCACHE_H
