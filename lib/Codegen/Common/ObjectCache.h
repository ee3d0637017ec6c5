//===- ObjectCache.h - Compiled kernels on disk -----------------*- C++ -*-===//
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

/// A directory with one file for each kernel that was ever compiled. A file
/// that is damaged, or cannot be read or written, counts as not there.
class ObjectCache {
public:
  /// Empty or "off": nothing is kept.
  explicit ObjectCache(llvm::StringRef directory);

  /// The bytes that were added with that hash by this build of the compiler.
  std::optional<std::string> find(llvm::StringRef hash) const;
  void add(llvm::StringRef hash, llvm::StringRef code) const;

private:
  std::string pathOf(llvm::StringRef hash) const;

  std::string directory;
  std::string compiler; ///< Tells builds of this compiler apart.
};

} // namespace heddle::codegen

#endif // HEDDLE_LIB_CODEGEN_COMMON_OBJECTCACHE_H
