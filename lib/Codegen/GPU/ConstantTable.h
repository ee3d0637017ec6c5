//===- ConstantTable.h - Constant numbers in global memory ------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel on a bucket may have to know where thousands of tensors begin. It
// looks their offsets up in tables.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_CONSTANTTABLE_H
#define HEDDLE_LIB_CODEGEN_GPU_CONSTANTTABLE_H

#include "KernelFrame.h"

namespace heddle::gpu {

/// A table of constant integers in global memory. The functions of a kernel
/// share tables of the same name.
class ConstantTable {
public:
  ConstantTable(KernelFrame &f, llvm::StringRef symbol,
                llvm::ArrayRef<int32_t> numbers);
  ConstantTable(KernelFrame &f, llvm::StringRef symbol,
                llvm::ArrayRef<int64_t> numbers);

  /// Emits the load of an entry. `index` has the type index.
  mlir::Value at(mlir::Value index) const;
  /// Emits a binary search in the entries from 0 to `last`, which must be
  /// sorted. Returns the index of the last one that is at most `key`, or 0.
  mlir::Value search(int64_t last, mlir::Value key) const;

private:
  ConstantTable(KernelFrame &f, llvm::StringRef symbol,
                mlir::DenseElementsAttr numbers);

  KernelFrame &f;
  mlir::Value memory;
};

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_CONSTANTTABLE_H
