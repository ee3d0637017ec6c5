//===- PlanDialect.td - When, on which stream, in which bytes -------------===//
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
    Kernels and their launches. Launches appear in two forms. After the fuse
    phase they are values: tensors in, tensors out, with ties where a result
    takes the place of an operand. After the memory phase they are commands on
    buffers: memrefs with an offset, a size and a lifetime, and no results.
  }];
  let dependentDialects = ["::heddle::nn::NNDialect",
                           "::heddle::pipe::PipeDialect"];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

def Plan_TokenType : TypeDef<Plan_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "A point of a stream, or a communication that was started.";
}

/// What memory holds: a type of the plan format.
def Plan_Element : AnyTypeOf<[F64, F32, BF16, F16, I8, I32, I64]>;
def Plan_AnyMemory : StaticShapeMemRefOf<[Plan_Element]>;
/// Elements without gaps.
def Plan_Memory
    : ConfinedType<Plan_AnyMemory,
                   [CPred<"::llvm::cast<::mlir::MemRefType>($_self)"
                          ".getLayout().isIdentity()">],
                   Plan_AnyMemory.summary # " without gaps">;
/// The same, or rows that begin a pitch apart.
def Plan_PitchedMemory
    : ConfinedType<Plan_AnyMemory,
                   [CPred<"::heddle::dist::rowPitch("
                          "::llvm::cast<::mlir::MemRefType>($_self))">],
                   Plan_AnyMemory.summary # " by rows">;

def Plan_CollectiveKindAttr
    : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective_kind">;

def Plan_GeneratorAttr : EnumAttr<Plan_Dialect, NN_Generator, "generator"> {
  let cppNamespace = "::heddle::planir";
  let assemblyFormat = "`<` $value `>`";
}

def Plan_StreamAttr : EnumAttr<Plan_Dialect, Plan_Stream, "stream"> {
  let summary = "What runs beside other streams.";
  let description = [{
    A stream does its commands in the order of the text. `compute` runs kernels.
    `communication` runs collectives and messages: each begins when `compute` has
    come to it. `copy` and `store` copy and fill beside both: `store` what
    leaves the device's memory, `copy` the rest. `host` runs kernels on the cores
    beside a GPU. These three wait for nothing but tokens.
  }];
}

def Plan_BytesAttr : AttrDef<Plan_Dialect, "Bytes"> {
  let mnemonic = "bytes";
  let summary = "How many bytes of each kind of memory.";
  let description = [{
    As `#plan.bytes<device 8192, pinned 4096>`; what is not named has none.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$counts);
  let hasCustomAssemblyFormat = 1;
  let builders = [
    AttrBuilder<(ins "int64_t":$device), [{
      return $_get($_ctxt, ::llvm::ArrayRef<int64_t>{device, 0, 0, 0});
    }]>
  ];
  let extraClassDeclaration = [{
    /// Those of one kind.
    int64_t of(::heddle::nn::MemoryKind kind) const {
      return getCounts()[static_cast<unsigned>(kind)];
    }
    /// Those of all kinds.
    int64_t total() const;
  }];
}

def Plan_GridLaunchAttr : AttrDef<Plan_Dialect, "GridLaunch"> {
  let mnemonic = "grid_launch";
  let summary = "One launch of a function over a grid of blocks of threads.";
  let description = [{
    As `#plan.grid_launch<"gelu", grid = [384, 1, 1], block = [256, 1, 1]>`.
    `shared` is what a block needs of shared memory beyond what the function
    declares, in bytes. With `cluster = [2, 1, 1]` so many blocks beside each
    other are a thread block cluster; without it there is none.
  }];
  let parameters = (ins StringRefParameter<"The function.">:$symbol,
                        ArrayRefParameter<"int64_t">:$grid,
                        ArrayRefParameter<"int64_t">:$block,
                        OptionalArrayRefParameter<"int64_t">:$cluster,
                        DefaultValuedParameter<"int64_t", "0">:$shared);
  let hasCustomAssemblyFormat = 1; // Either optional part follows a comma.
  let genVerifyDecl = 1;
}
def Plan_GridLaunches
    : TypedArrayAttrBase<Plan_GridLaunchAttr, "launches over grids">;

def Plan_LibraryProductAttr : AttrDef<Plan_Dialect, "LibraryProduct"> {
  let mnemonic = "library_product";
  let summary = "A call of cuBLASLt that computes what a kernel computes.";
  let description = [{
    As `#plan.library_product<m = 76, n = 72, k = 24, type = f32, result = f32,
    a = 0, b = 1, bias = 2, d = 3, workspace = 175104>`: the product of a, `[m, k]`
    or stored as `[k, m]` (`trans_a`), and of b, `[k, n]` or stored as `[n, k]`
    (`trans_b`), by rows. The operands have the type `type`, all others the type
    `result`. Sums are in f32. a, b and so on are the kernel's addresses by their
    number; -1 is none. `pitch_a` and so on are the elements from the begin of a
    row to that of the next; 0: rows without gaps.

    To the sums are added `bias`, a row, and `c`, a matrix, which may be `d`. With
    `end = gelu_tanh` d has the function of that, and `aux` that itself. With
    `end = gelu_tanh_grad` it is multiplied by the function's derivative at `aux`.
    `sum_a` gets the sums of a over k, m of them, or `sum_b` those of b, n.

    `workspace` bytes of the scratch memory are the library's. With `tf32` it may
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
      DefaultValuedParameter<"int64_t", "0">:$pitch_a,
      DefaultValuedParameter<"int64_t", "0">:$pitch_b,
      DefaultValuedParameter<"int64_t", "0">:$pitch_c,
      DefaultValuedParameter<"int64_t", "0">:$pitch_d,
      DefaultValuedParameter<"int64_t", "0">:$pitch_aux,
      DefaultValuedParameter<"::heddle::planir::ProductEnd",
                             "::heddle::planir::ProductEnd::Plain">:$end,
      DefaultValuedParameter<"bool", "false">:$tf32,
      "int64_t":$workspace);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // HEDDLE_DIALECTS_PLAN_DIALECT
