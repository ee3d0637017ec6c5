//===- PlanDialect.td - Types and attributes of the plan dialect ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_DIALECT
#define HEDDLE_DIALECTS_PLAN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "dialects/Plan/PlanEnums.td"
include "dialects/NN/NNDialect.td"
include "dialects/Dist/DistDialect.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::heddle::planir";
  let summary = "When, on which stream, in which bytes: one op, one run-time command.";
  let description = [{
    Kernels, their launches, and the commands of a plan. Launches have two forms.
    From the fuse phase on they take and return tensors; a tie says that a result
    is computed in place of an operand. From the memory phase on they are
    commands on buffers: memrefs with an offset, a size and a lifetime, and no
    results.
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::heddle::pipe::PipeDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def Plan_TokenType : TypeDef<Plan_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "An event: a recorded point of a stream, or a started communication.";
}

/// The element types of the plan format.
def Plan_Element : AnyTypeOf<[F64, F32, BF16, F16, I8, I32, I64]>;
def Plan_AnyMemory : StaticShapeMemRefOf<[Plan_Element]>;
/// Rows without padding.
def Plan_Memory
    : ConfinedType<Plan_AnyMemory,
                   [CPred<"::llvm::cast<::mlir::MemRefType>($_self)"
                          ".getLayout().isIdentity()">],
                   Plan_AnyMemory.summary # " without gaps">;
/// A memref of rows that may have padding: it is row-major, with a leading
/// dimension.
def Plan_PaddedMemory
    : ConfinedType<Plan_AnyMemory,
                   [CPred<"::heddle::dist::leadingDimension("
                          "::llvm::cast<::mlir::MemRefType>($_self))">],
                   Plan_AnyMemory.summary # " by rows">;

def Plan_CollectiveKindAttr
    : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective_kind">;

def Plan_GeneratorAttr : EnumAttr<Plan_Dialect, NN_Generator, "generator"> {
  let cppNamespace = "::heddle::planir";
  let assemblyFormat = "`<` $value `>`";
}

def Plan_StreamAttr : EnumAttr<Plan_Dialect, Plan_Stream, "stream"> {
  let summary = "The stream of a command.";
  let description = [{
    A stream runs its commands in the order of the text, and overlaps with other
    streams. `compute` runs kernels. `communication` runs collectives and
    messages; each begins when `compute` has reached it. `store` copies out of the
    device's memory, and `copy` does other copies and fills. `host` runs kernels
    on the cores next to a GPU. These three wait for tokens only.
  }];
}

def Plan_BytesAttr : AttrDef<Plan_Dialect, "Bytes"> {
  let mnemonic = "bytes";
  let summary = "Numbers of bytes for each kind of memory.";
  let description = [{
    For example `#plan.bytes<device 8192, pinned 4096>`; kinds that are not named
    have 0 bytes.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$counts);
  let hasCustomAssemblyFormat = 1;
  let builders = [
    AttrBuilder<(ins "int64_t":$device), [{
      return $_get($_ctxt, ::llvm::ArrayRef<int64_t>{device, 0, 0, 0});
    }]>
  ];
  let extraClassDeclaration = [{
    /// The number of bytes of one kind of memory.
    int64_t of(::heddle::nn::MemoryKind kind) const {
      return getCounts()[static_cast<unsigned>(kind)];
    }
    /// The sum over all kinds of memory.
    int64_t total() const;
  }];
}

def Plan_GridLaunchAttr : AttrDef<Plan_Dialect, "GridLaunch"> {
  let mnemonic = "grid_launch";
  let summary = "A launch of a GPU function over a grid of thread blocks.";
  let description = [{
    For example `#plan.grid_launch<"gelu", grid = [384, 1, 1], block = [256, 1, 1]>`.
    `shared` is the dynamic shared memory of a block, in bytes. With
    `cluster = [2, 1, 1]` this many neighbouring blocks are a thread block
    cluster; without it there are no clusters.
  }];
  let parameters = (ins StringRefParameter<"The function.">:$symbol,
                        ArrayRefParameter<"int64_t">:$grid,
                        ArrayRefParameter<"int64_t">:$block,
                        OptionalArrayRefParameter<"int64_t">:$cluster,
                        DefaultValuedParameter<"int64_t", "0">:$shared);
  let hasCustomAssemblyFormat = 1; // Both optional fields begin with a comma.
  let genVerifyDecl = 1;
}
def Plan_GridLaunches
    : TypedArrayAttrBase<Plan_GridLaunchAttr, "launches over grids">;

def Plan_LibraryProductAttr : AttrDef<Plan_Dialect, "LibraryProduct"> {
  let mnemonic = "library_product";
  let summary = "A call of cuBLASLt that computes what a kernel computes.";
  let description = [{
    For example `#plan.library_product<m = 76, n = 72, k = 24, type = f32,
    result = f32, a = 0, b = 1, bias = 2, d = 3, workspace = 175104>`: the product
    of a, `[m, k]` or stored as `[k, m]` (`trans_a`), and b, `[k, n]` or stored as
    `[n, k]` (`trans_b`), all row-major. a and b have the element type `type`, all
    other operands `result`. Products are accumulated in f32. a, b and so on are
    indices of the kernel's operands; -1 is none. `lda` and so on are leading
    dimensions in elements; 0: no padding.

    `bias` (a row) and `c` (a matrix, which may be `d`) are added to the product.
    With `end = gelu_tanh`, d is the gelu of the sum and `aux` the sum itself.
    With `end = gelu_tanh_grad`, d is the sum times gelu's derivative at `aux`.
    `sum_a` gets the m sums of a over k, or `sum_b` the n sums of b.

    The library uses `workspace` bytes of the scratch memory. With `tf32` it may
    round operands of f32 to 10 bits of mantissa.
  }];
  let parameters = (ins
      "int64_t":$m, "int64_t":$n, "int64_t":$k,
      DefaultValuedParameter<"bool", "false">:$trans_a,
      DefaultValuedParameter<"bool", "false">:$trans_b,
      "::mlir::Type":$type, "::mlir::Type":$result,
      "int64_t":$a, "int64_t":$b,
      DefaultValuedParameter<"int64_t", "-1">:$c,
      DefaultValuedParameter<"int64_t", "-1">:$bias, "int64_t":$d,
      DefaultValuedParameter<"int64_t", "-1">:$aux,
      DefaultValuedParameter<"int64_t", "-1">:$sum_a,
      DefaultValuedParameter<"int64_t", "-1">:$sum_b,
      DefaultValuedParameter<"int64_t", "0">:$lda,
      DefaultValuedParameter<"int64_t", "0">:$ldb,
      DefaultValuedParameter<"int64_t", "0">:$ldc,
      DefaultValuedParameter<"int64_t", "0">:$ldd,
      DefaultValuedParameter<"int64_t", "0">:$ldaux,
      DefaultValuedParameter<"::heddle::planir::ProductEnd",
                             "::heddle::planir::ProductEnd::Plain">:$end,
      DefaultValuedParameter<"bool", "false">:$tf32,
      "int64_t":$workspace);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // HEDDLE_DIALECTS_PLAN_DIALECT
