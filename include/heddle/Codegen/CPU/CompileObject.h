//===- CompileObject.h - Compiles modules to x86-64 objects -----*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_CODEGEN_CPU_COMPILEOBJECT_H
#define HEDDLE_CODEGEN_CPU_COMPILEOBJECT_H

#include "heddle/Codegen/CPU/CpuTarget.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>

namespace mlir {
class DialectRegistry;
class OpBuilder;
} // namespace mlir

namespace heddle::cpu {

/// Registers every dialect and translation that CPU code generation uses.
void registerCpuCodegen(mlir::DialectRegistry &registry);

/// Lowers a module of func, scf, vector, memref, math, arith and llvm
/// operations to the llvm dialect. Memrefs that functions take must have a
/// static shape; they become bare pointers.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module, const CpuTarget &target);

/// Lowers `module` in place, optimizes it for `target` and returns an x86-64
/// ELF object (position-independent). The module's context must have the
/// dialects that `registerCpuCodegen` registers.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileToObject(mlir::ModuleOp module, const CpuTarget &target);

/// Emits a memref of `type` (static, with identity or strided layout) at
/// `pointer`, an !llvm.ptr, so that a kernel that gets raw pointers can use
/// memref operations.
mlir::Value memrefFromPointer(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::Value pointer, mlir::MemRefType type);

} // namespace heddle::cpu

#endif // HEDDLE_CODEGEN_CPU_COMPILEOBJECT_H
