//===- LoadedObject.h - Object code in this process -----------*- C++ -*- ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SUPPORT_LOADEDOBJECT_H
#define HEDDLE_TEST_UNIT_SUPPORT_LOADEDOBJECT_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "llvm/ExecutionEngine/Orc/Shared/ExecutorAddress.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace llvm::orc {
class JITDylib;
}

namespace heddle::test {

/// Object code for a target, loaded into this process; with the functions that
/// emulate tiles, if it calls them, and else the machine's tiles, if it has
/// AMX.
class LoadedObject {
public:
  /// Exits with a message when the object cannot be loaded.
  LoadedObject(std::unique_ptr<llvm::MemoryBuffer> object,
               const cpu::CpuTarget &target);
  ~LoadedObject();
  LoadedObject(const LoadedObject &) = delete;

  /// The function called `symbol`; exits with a message when there is none.
  template <typename Function> Function lookup(llvm::StringRef symbol) const {
    return addressOf(symbol).toPtr<Function>();
  }

private:
  llvm::orc::ExecutorAddr addressOf(llvm::StringRef symbol) const;

  llvm::orc::JITDylib *library;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SUPPORT_LOADEDOBJECT_H
