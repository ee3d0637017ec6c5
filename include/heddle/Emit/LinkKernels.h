//===- LinkKernels.h - Links objects to a shared object ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_EMIT_LINKKERNELS_H
#define HEDDLE_EMIT_LINKKERNELS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace heddle::emit {

/// Links relocatable x86-64 objects into the image of an ELF shared object that
/// exports all their symbols. Equal objects give equal bytes.
llvm::Expected<std::string> linkKernels(llvm::ArrayRef<std::string> objects);

} // namespace heddle::emit

#endif // HEDDLE_EMIT_LINKKERNELS_H
