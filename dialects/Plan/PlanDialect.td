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
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
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
  let dependentDialects = ["::heddle::nn::NNDialect"];
}

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

def Plan_KernelOp : Plan_Op<"kernel", [IsolatedFromAbove, Symbol,
                                       FunctionOpInterface]> {
  let summary = "A group of nn operations that become one compiled function.";
  let description = [{
    The body computes on tensors and ends in `plan.yield`. `ties[i]` is the
    argument whose memory result i takes over, or -1. `generator` names what
    makes its code: rows (element-wise chains and reductions over the last
    dimension), gemm, attention, ... From the kernels phase on `symbol` names
    the function in the object `object`, `scratch_bytes` what each thread needs.
    Arguments of the compiled function: the tensor arguments in order, then the
    results that are not tied; scalars (index) apart, in order.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       StrAttr:$generator,
                       DenseI64ArrayAttr:$ties,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<FlatSymbolRefAttr>:$object,
                       OptionalAttr<StrAttr>:$symbol,
                       OptionalAttr<StrAttr>:$hash,
                       OptionalAttr<I64Attr>:$scratch_bytes);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type,
                                 "::llvm::StringRef":$generator,
                                 "::llvm::ArrayRef<int64_t>":$ties)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Plan_YieldOp : Plan_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel's body with its results.";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

def Plan_ObjectOp : Plan_Op<"object", [Symbol]> {
  let summary = "Compiled code: a relocatable ELF object as base64 text.";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$data);
  let assemblyFormat = "$sym_name $data attr-dict";
}

def Plan_LaunchOp : Plan_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel on every thread of the pool.";
  let description = [{
    Value form: `%y = plan.launch @k(%x, %w) : (tensor...) -> tensor...`.
    Buffer form: `plan.launch @k(%x, %w, %y) : (memref...) -> ()`, the operands
    in the order of the compiled function, scalars included in place.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$operands,
                       OptionalAttr<StrAttr>:$path);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $kernel `(` $operands `)` attr-dict `:` functional-type($operands, $results)
  }];
}

//===----------------------------------------------------------------------===//
// Buffer form
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program", [
    IsolatedFromAbove, SymbolTable, Symbol, NoTerminator, NoRegionArguments,
    SingleBlock, RegionKindInterface,
    DeclareOpInterfaceMethods<RegionKindInterface, ["getRegionKind"]>]> {
  let summary = "A whole plan: memory, kernels, sequences, step programs.";
  let description = [{
    Takes the place of `nn.model` at the memory phase and keeps its attributes.
    Sizes are in bytes, rounded up to pages. `owners` says who has how many.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family,
                       StrAttr:$phase, Dist_StrategyAttr:$strategy,
                       StrAttr:$config, DictionaryAttr:$weights,
                       I64Attr:$persistent_bytes, I64Attr:$arena_bytes,
                       I64Attr:$scratch_offset, I64Attr:$scratch_bytes_per_thread,
                       DictionaryAttr:$owners);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `family` $family `phase` $phase attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
  }];
  let hasVerifier = 1;
}

def Plan_StateOp : Plan_Op<"state", [Symbol]> {
  let summary = "A state with its place in the persistent region.";
  let description = [{ `like` keeps every attribute of the nn.state. }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       I64Attr:$offset, DictionaryAttr:$like);
  let assemblyFormat = "$sym_name `at` $offset `:` $type attr-dict";
  let hasVerifier = 1;
}

def Plan_SequenceOp : Plan_Op<"sequence", [IsolatedFromAbove, Symbol,
                                           FunctionOpInterface]> {
  let summary = "A list of commands over arguments (memrefs, index) and a frame.";
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       I64Attr:$frame_bytes,
                       OptionalAttr<StrAttr>:$kind,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type,
                                 "int64_t":$frameBytes)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
  let hasVerifier = 1;
}

def Plan_EndOp : Plan_Op<"end", [Terminator]> {
  let summary = "Ends a sequence.";
  let assemblyFormat = "attr-dict";
}

def Plan_BufferOp : Plan_Op<"buffer"> {
  let summary = "Bytes of the frame: offset, and first and last command that use them.";
  let description = [{
    `port` names a step program's input or output; such a buffer lives for the
    whole program. `owner` says what the bytes hold, for the memory map.

    ```mlir
    %3 = plan.buffer at 4096 live [2, 7] owner "activations" : memref<4x64x768xf32>
    ```
  }];
  let arguments = (ins I64Attr:$offset, I64Attr:$first, I64Attr:$last,
                       StrAttr:$owner, OptionalAttr<StrAttr>:$port);
  let results = (outs AnyStaticShapeMemRef:$buffer);
  let assemblyFormat = [{
    `at` $offset `live` `[` $first `,` $last `]` `owner` $owner attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_StateRefOp : Plan_Op<"state_ref", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The bytes of a state, or of a run of states from this one on.";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs AnyStaticShapeMemRef:$buffer);
  let assemblyFormat = "$state attr-dict `:` type($buffer)";
}

def Plan_SliceOp : Plan_Op<"slice", [Pure]> {
  let summary = "The part of a buffer that belongs to one iteration of a loop.";
  let arguments = (ins AnyStaticShapeMemRef:$source, Index:$index);
  let results = (outs AnyStaticShapeMemRef:$buffer);
  let assemblyFormat = [{
    $source `[` $index `]` attr-dict `:` type($source) `->` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_CallOp : Plan_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a sequence; its frame stands at `frame_offset` in the caller's.";
  let arguments = (ins FlatSymbolRefAttr:$sequence, Variadic<AnyType>:$operands,
                       I64Attr:$frame_offset, StrAttr:$path);
  let assemblyFormat = [{
    $sequence `(` $operands `)` `frame` $frame_offset `path` $path attr-dict `:` type($operands)
  }];
}

def Plan_LoopOp : Plan_Op<"loop", [SingleBlock, NoTerminator]> {
  let summary = "Runs its body `count` times; the argument is the iteration.";
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Op<"copy"> {
  let summary = "Copies the bytes of `source` to `target`.";
  let arguments = (ins AnyStaticShapeMemRef:$target, AnyStaticShapeMemRef:$source);
  let assemblyFormat = "$target `,` $source attr-dict `:` type($target) `,` type($source)";
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PLAN_DIALECT
