//===- PlanOps.td - Kernels, commands, sequences, programs -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_PLAN_OPS
#define HEDDLE_DIALECTS_PLAN_OPS

include "dialects/Plan/PlanDialect.td"
include "dialects/Plan/PlanInterfaces.td"
include "dialects/Pipe/PipeAttrs.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

def Plan_KernelOp : Plan_Op<"kernel", [IsolatedFromAbove, Symbol,
                                       FunctionOpInterface]> {
  let summary = "A group of nn operations that become one compiled function.";
  let description = [{
    The body computes on tensors and ends in `plan.yield`. `ties[i]` is the
    argument that result i is computed in place of, or -1. `generator` is the code
    generator: rows (element-wise chains and reductions over the last dimension),
    gemm, attention, ... (`#plan.generator<gemm>`). From the kernels phase on,
    `symbol` is the function's name in the object `object`, and `hash` is the hash
    of the kernel and the target. `leading_dimensions` has leading dimensions in elements,
    for each argument and then for each result that is not tied; 0: no padding.
    Padding is never read.

    For a CPU every thread of the pool calls the function, with `scratch_bytes`
    of scratch memory each. The function takes the addresses of the tensor
    arguments in order and of the results that are not tied, and the scalars
    (index) in a table of their own.

    For a GPU `launches` lists the functions that are launched one after the
    other; they share `scratch_bytes`. Each takes the addresses of the tensor
    arguments in order, then of the results that are not tied, then of the
    scratch memory (only if there is some), then the scalars as 64-bit integers.
    `library` is a call of cuBLASLt with the same addresses that may replace the
    launches.

    With `on_host` the cores next to a GPU run the kernel, on memory of the kinds
    host and pinned. Its code is for the CPU, and it has no scratch memory.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       Plan_GeneratorAttr:$generator,
                       DenseI64ArrayAttr:$ties,
                       OptionalAttr<DenseI64ArrayAttr>:$leading_dimensions,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<FlatSymbolRefAttr>:$object,
                       OptionalAttr<StrAttr>:$symbol,
                       OptionalAttr<StrAttr>:$hash,
                       OptionalAttr<I64Attr>:$scratch_bytes,
                       OptionalAttr<Plan_GridLaunches>:$launches,
                       OptionalAttr<Plan_LibraryProductAttr>:$library,
                       UnitAttr:$on_host);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type,
                                 "::heddle::nn::Generator":$generator,
                                 "::llvm::ArrayRef<int64_t>":$ties)>];
  let extraClassDeclaration = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    /// The types of a launch's operands after bufferization. The operands are
    /// the kernel's arguments, followed by buffers for those results that are
    /// not computed in the memory of an argument.
    ::llvm::SmallVector<::mlir::Type> getLaunchTypes();
    /// The index of the launch operand whose memory holds a result. If the
    /// result is computed in place of an argument, it is the index of the
    /// argument.
    unsigned getLaunchOperandOf(unsigned result);
    /// The leading dimension of an operand, in elements; 0: rows have no
    /// padding.
    int64_t getLeadingDimension(unsigned operand) {
      return getLeadingDimensions() ? (*getLeadingDimensions())[operand] : 0;
    }
    /// The type of an operand after bufferization: a memref with the operand's
    /// leading dimension, or the type of a scalar.
    ::mlir::Type getBufferType(unsigned operand);
    /// The scratch memory in bytes that suffices both for the generated code
    /// and for the call of cuBLASLt (the attribute `library`) that may replace
    /// the generated code.
    int64_t mostScratchBytes() {
      return ::std::max<int64_t>(
          getScratchBytes().value_or(0),
          getLibrary() ? getLibrary()->getWorkspace() : 0);
    }
  }];
}

def Plan_YieldOp : Plan_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel's body with its results.";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

def Plan_ObjectOp : Plan_Op<"object", [Symbol]> {
  let summary = "The compiled code of kernels.";
  let description = [{
    For a CPU a relocatable ELF object as base64 text, for a GPU the text of PTX.
    `hash` is the hash of the code, its symbol, its scratch memory and the kernel
    that it was made from. It is checked when a dump is read, before the code
    runs.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$data,
                       OptionalAttr<StrAttr>:$hash);
  let assemblyFormat = "$sym_name $data attr-dict";
}

/// The stream of a command that may be on different streams; the default is
/// `compute`.
def Plan_OnStream
    : DefaultValuedAttr<Plan_StreamAttr, "::heddle::planir::Stream::Compute">;

def Plan_LaunchOp : Plan_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Launches a kernel.";
  let description = [{
    Value form: `%y = plan.launch @k(%x, %w) : (tensor...) -> tensor...`.
    Buffer form: `plan.launch @k(%x, %w, %y) : (memref...) -> ()`, with the
    operands in the order of the kernel's arguments and untied results. Kernels
    only run on the stream `compute`, since they share its scratch memory, and
    kernels with `on_host` on the stream `host`:

    ```mlir
    plan.launch @adam(%p, %g, %m, %v, %lr) on host : (memref<64xf32>, ...) -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyType>:$operands,
                       OptionalAttr<StrAttr>:$path, Plan_OnStream:$stream);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $kernel `(` $operands `)` (`on` $stream^)? attr-dict `:` functional-type($operands, $results)
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
    The memory phase replaces `nn.model` by it and keeps the attributes. Sizes
    are in bytes, rounded up to pages, for each kind of memory. `owners` says how
    many bytes each use of memory has. The runtime needs `staging_bytes` of
    pinned memory for a GPU's copies from and to files. `files` has the bytes of
    each offload file of a rank, such as `{optimizer = 8192}`. In the persistent
    region of the kind file they follow each other in the order optimizer,
    parameters, gradients, activations.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family,
                       StrAttr:$phase, Dist_StrategyAttr:$strategy,
                       StrAttr:$config, DictionaryAttr:$weights,
                       Plan_BytesAttr:$persistent_bytes,
                       Plan_BytesAttr:$arena_bytes,
                       DefaultValuedAttr<I64Attr, "0">:$staging_bytes,
                       I64Attr:$scratch_offset, I64Attr:$scratch_bytes_per_thread,
                       DictionaryAttr:$owners, OptionalAttr<I64Attr>:$stage,
                       OptionalAttr<DictionaryAttr>:$files);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `family` $family `phase` $phase attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

/// The kind of memory that a state or buffer is in; the default is the
/// device's.
def Plan_InMemory
    : DefaultValuedAttr<NN_MemoryAttr, "::heddle::nn::MemoryKind::Device">;

def Plan_StateOp : Plan_Op<"state", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A state with its offset in the persistent region of its memory.";
  let description = [{
    `like` has every attribute of the nn.state. For a member of a bucket that is
    split over ranks, `flat` names the bucket, and `offset` is the member's first
    element in the flat tensor.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       I64Attr:$offset, Plan_InMemory:$memory,
                       DictionaryAttr:$like,
                       OptionalAttr<FlatSymbolRefAttr>:$flat);
  let assemblyFormat = [{
    $sym_name `at` $offset (`in` $memory^)? `:` $type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_FlatOp : Plan_Op<"flat", [Symbol]> {
  let summary = "A rank's part of a flat tensor that is split over ranks.";
  let description = [{
    `type` is the type of the part, `elements` the size of the whole tensor, and
    `axes` are the axes that split it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       I64Attr:$offset, Plan_InMemory:$memory,
                       I64Attr:$elements, StrArrayAttr:$axes);
  let assemblyFormat = [{
    $sym_name `at` $offset (`in` $memory^)? `:` $type `of` $elements `over` $axes attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_SequenceOp : Plan_Op<"sequence", [IsolatedFromAbove, Symbol,
                                           FunctionOpInterface]> {
  let summary = "A list of commands over arguments (memrefs, index) and a frame.";
  let description = [{
    For ports of a step program that are split over ranks, `ports` has the type
    of the whole tensor and the sharding, by the port's key:
    `{ids = {whole = tensor<1x8x64xi32>, sharding = #dist.sharding<...>}}`.
    If a plan has several programs of the kind `train`, `phase` says in which
    steps of a run each of them runs.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       I64Attr:$frame_bytes,
                       OptionalAttr<NN_ProgramKindAttr>:$kind,
                       OptionalAttr<NN_PhaseAttr>:$phase,
                       OptionalAttr<DictionaryAttr>:$ports,
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
  let summary = "Bytes of the frame, with their offset and lifetime.";
  let description = [{
    `live` has the first and the last command that use the buffer. A buffer with
    `input` or `output` is this port of a step program, and lives for the whole
    program. `owner` names the use of the bytes for the memory map. In memory
    other than the device's only a step program has a frame, which is the whole
    arena of that memory. Rows may have padding if kernels ask for it; only
    launches use such a buffer. With `settled`, work that the previous run left
    uses the buffer until that command.

    ```mlir
    %3 = plan.buffer at 4096 live [2, 7] owner "activations" : memref<4x64x768xf32>
    %4 = plan.buffer at 0 in pinned live [3, 5] owner "activations" : memref<64xf32>
    %5 = plan.buffer at 0 live [3, 5] owner "activations" : memref<64x1003xbf16, strided<[1008, 1]>>
    %6 = plan.buffer at 0 live [9, 12] settled 4 owner "activations" : memref<64xf32>
    ```
  }];
  let arguments = (ins I64Attr:$offset, Plan_InMemory:$memory,
                       I64Attr:$first, I64Attr:$last, StrAttr:$owner, OptionalAttr<NN_PortAttr>:$input,
                       OptionalAttr<NN_PortAttr>:$output,
                       OptionalAttr<I64Attr>:$settled);
  let results = (outs Plan_PaddedMemory:$buffer);
  let extraClassDeclaration = [{
    /// The port, that is, the input or output of the step, whose value the
    /// buffer holds; null if the buffer holds no such value.
    ::heddle::nn::PortAttr getPort() {
      return getInputAttr() ? getInputAttr() : getOutputAttr();
    }
  }];
  let assemblyFormat = [{
    `at` $offset (`in` $memory^)? `live` `[` $first `,` $last `]` (`settled` $settled^)?
    `owner` $owner attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_StateRefOp : Plan_Op<"state_ref", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The bytes of a state, or of consecutive states from this one on.";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Plan_Memory:$buffer);
  let assemblyFormat = "$state attr-dict `:` type($buffer)";
}

def Plan_SliceOp : Plan_Op<"slice", [Pure]> {
  let summary = "The part of a buffer that an index selects.";
  let description = [{
    The index is an iteration, a slot, or this rank's coordinate. Either the
    source has one dimension more than the part, in front, or its first dimension
    that is not 1 is a multiple of the part's.
  }];
  let arguments = (ins Plan_Memory:$source, Index:$index);
  let results = (outs Plan_Memory:$buffer);
  let assemblyFormat = [{
    $source `[` $index `]` attr-dict `:` type($source) `->` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "A part of a buffer, from an element on.";
  let arguments = (ins Plan_Memory:$source, I64Attr:$element);
  let results = (outs Plan_Memory:$buffer);
  let assemblyFormat = [{
    $source `[` $element `]` attr-dict `:` type($source) `->` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_RankOp : Plan_Op<"rank", [Pure]> {
  let summary = "The coordinate of this rank along some axes.";
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs Index:$index);
  let assemblyFormat = "$axes attr-dict `:` type($index)";
  let hasVerifier = 1;
}

def Plan_ConditionOp : Plan_Op<"condition", [Symbol]> {
  let summary = "Something that is true or false in a whole step; see nn.condition.";
  let description = [{
    Every command may have one of two attributes. With `plan.when = @c` it is
    skipped in the steps in which the condition @c is false, with `plan.unless =
    @c` in those in which it is true. All commands that a skipped plan.call would
    run are skipped with it. A wait has the attribute of what it waits for:

    ```mlir
    %t = plan.collective all_gather ... {plan.when = @h.3.kept} : ...
    plan.wait %t {plan.when = @h.3.kept}
    plan.call @block(...) frame 4096 path "h.3" {plan.when = @h.3.kept} : ...
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_LayerDropAttr:$holds);
  let assemblyFormat = "$sym_name $holds attr-dict";
}

def Plan_CallOp : Plan_Op<"call", [
    Plan_CommandOp, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a sequence, with its frame at `frame_offset` in the caller's.";
  let description = [{
    A layer that steps may drop is a call with the attribute `plan.when`, and
    copies with `plan.unless` give its results their values if it is skipped.

    ```mlir
    plan.copy %y, %x {plan.unless = @h.3.kept} : memref<64xf32>, memref<64xf32>
    plan.call @block(%x, %w, %y) frame 4096 path "h.3" {plan.when = @h.3.kept} : memref<64xf32>, ...
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$sequence, Variadic<AnyType>:$operands,
                       I64Attr:$frame_offset, StrAttr:$path);
  let assemblyFormat = [{
    $sequence `(` $operands `)` `frame` $frame_offset `path` $path attr-dict
    `:` type($operands)
  }];
}

def Plan_LoopOp : Plan_Op<"loop", [Plan_CommandOp, SingleBlock,
                                   NoTerminator]> {
  let summary = "Runs its body `count` times; the argument is the iteration.";
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Op<"copy", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Copies the bytes of `source` to `target`.";
  let description = [{
    Only plan.copy, plan.copy_rows and plan.fill access memory of every kind. On
    the streams `copy` and `store` a copy overlaps with kernels:

    ```mlir
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %kept, %x on copy : memref<64xf32>, memref<64xf32>
    %copied = plan.record copy
    plan.launch @next(...)
    plan.wait %copied
    ```
  }];
  let arguments = (ins Plan_Memory:$target, Plan_Memory:$source,
                       Plan_OnStream:$stream);
  let assemblyFormat = [{
    $target `,` $source (`on` $stream^)? attr-dict
    `:` type($target) `,` type($source)
  }];
  let hasVerifier = 1;
}

def Plan_CopyRowsOp : Plan_Op<"copy_rows", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Gathers rows of `source` by `ids` into `target`.";
  let description = [{
    Row t of the target is row `ids[t]` of the source. An id outside of the source
    gives bytes of all ones, which is NaN in every floating type. With `first` the
    source is a part of a table that begins at this row: an id gives row
    `ids[t] - first`, or zeros outside of the part. The source is in memory of
    another kind than the device's, the target and the ids in the device's.

    ```mlir
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy_rows %rows, %table at %ids on copy : memref<2x16x96xbf16>, memref<4099x96xbf16>, memref<2x16xi32>
    %copied = plan.record copy
    plan.wait %copied
    ```
  }];
  let arguments = (ins Plan_Memory:$target, Plan_Memory:$source,
                       Plan_Memory:$ids, Optional<Index>:$first,
                       Plan_OnStream:$stream);
  let assemblyFormat = [{
    $target `,` $source `at` $ids (`first` $first^)? (`on` $stream^)? attr-dict
    `:` type($target) `,` type($source) `,` type($ids)
  }];
  let hasVerifier = 1;
}

def Plan_FillOp : Plan_Op<"fill", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Fills a buffer with zeros.";
  let arguments = (ins Plan_Memory:$target, Plan_OnStream:$stream);
  let assemblyFormat = [{
    $target (`on` $stream^)? attr-dict `:` type($target)
  }];
  let hasVerifier = 1;
}

def Plan_RecordOp : Plan_Op<"record", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getOwnStream", "getSignal"]>]> {
  let summary = "Records the current point of a stream as a token.";
  let description = [{
    With `carried` a run of the program may end before the stream has reached the
    point. The next run waits for it by this number; see plan.settle.
  }];
  let arguments = (ins Plan_StreamAttr:$stream, OptionalAttr<I64Attr>:$carried);
  let results = (outs Plan_TokenType:$token);
  let builders = [OpBuilder<(ins "::mlir::Type":$token,
                                 "::heddle::planir::Stream":$stream), [{
    build($_builder, $_state, token, stream, ::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "$stream (`carried` $carried^)? attr-dict";
  let hasVerifier = 1;
}

def Plan_SettleOp : Plan_Op<"settle", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getOwnStream"]>]> {
  let summary = "Lets a stream wait for a point of the previous run.";
  let description = [{
    The point is that of the record with this `carried` number in the previous run
    of the program; the first run does not wait. Before another program runs, and
    at the end, the runtime waits for all points.

    ```mlir
    plan.settle 0
    ...
    plan.copy %moment, %tile on store : memref<64xf32>, memref<64xf32>
    %stored = plan.record store carried 0
    ```
  }];
  let arguments = (ins I64Attr:$number, Plan_OnStream:$stream);
  let assemblyFormat = "$number (`on` $stream^)? attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

def Plan_CollectiveOp : Plan_Op<"collective", [
    DeclareOpInterfaceMethods<Plan_CommandOp,
                              ["getAccesses", "getOwnStream", "getSignal"]>]> {
  let summary = "Starts a collective of the ranks along some axes.";
  let description = [{
    The target may be, or contain, the source. The larger buffer of
    reduce_scatter and all_gather is [outer, parts, inner] and is split along
    parts, separately for each of `segments` (sizes in elements, over all parts
    and inner dimensions). all_to_all concatenates along `outer` and `segments`,
    and splits along `split_outer` and `split_segments`. Until a plan.wait no
    other command may use the buffers; `staging` holds what is received
    meanwhile. A rank runs its collectives one after the other, in the order of
    their starts.

    ```mlir
    %t = plan.collective all_gather axes ["data"] target %f source %p staging %s
      outer 1 for "h.0" : memref<128xf32>, memref<64xf32>, memref<0xi8>
    ```
  }];
  let arguments = (ins Plan_CollectiveKindAttr:$kind, StrArrayAttr:$axes,
                       Plan_Memory:$target,
                       Plan_Memory:$source,
                       Plan_Memory:$staging, I64Attr:$outer,
                       OptionalAttr<I64Attr>:$split_outer,
                       OptionalAttr<DenseI64ArrayAttr>:$split_segments,
                       OptionalAttr<DenseI64ArrayAttr>:$segments,
                       OptionalAttr<TypeAttr>:$wire, StrAttr:$reason);
  let results = (outs Plan_TokenType:$token);
  let assemblyFormat = [{
    $kind `axes` $axes `target` $target `source` $source `staging` $staging
    `outer` $outer `for` $reason attr-dict `:` type($target) `,` type($source) `,` type($staging)
  }];
  let hasVerifier = 1;
}

def Plan_WaitOp : Plan_Op<"wait", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getOwnStream", "getAwaited"]>]> {
  let summary = "Lets a stream wait for a token.";
  let description = [{
    The token is a point of another stream or a collective. For a collective only
    the stream `compute` can wait, and does so once.
  }];
  let arguments = (ins Plan_TokenType:$token, Plan_OnStream:$stream);
  let assemblyFormat = "$token (`on` $stream^)? attr-dict";
  let hasVerifier = 1;
}

def Plan_SendOp : Plan_Op<"send", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream",
                                               "getSendingChannel"]>]> {
  let summary = "Sends a buffer to the rank `delta` further along an axis.";
  let description = [{
    The buffer is in use until a plan.flush of the channel: only then may a
    command write it again.
  }];
  let arguments = (ins Plan_Memory:$buffer, StrAttr:$axis,
                       I64Attr:$delta, StrAttr:$channel);
  let assemblyFormat = [{
    $buffer `to` $delta `on` $axis `channel` $channel attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_RecvOp : Plan_Op<"recv", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses"]>]> {
  let summary = "Receives a buffer from the rank `delta` further along an axis.";
  let arguments = (ins Plan_Memory:$buffer, StrAttr:$axis,
                       I64Attr:$delta, StrAttr:$channel);
  let assemblyFormat = [{
    $buffer `from` $delta `on` $axis `channel` $channel attr-dict `:` type($buffer)
  }];
  let hasVerifier = 1;
}

def Plan_FlushOp : Plan_Op<"flush", [Plan_CommandOp]> {
  let summary = "Waits until at most `left` sends of a channel are under way.";
  let arguments = (ins StrAttr:$channel, I64Attr:$left);
  let assemblyFormat = "`channel` $channel `left` $left attr-dict";
  let hasVerifier = 1;
}

def Plan_FragmentsOp : Plan_Op<"fragments", [Plan_CommandOp]> {
  let summary = "Runs one stage's fragments in the order of its schedule.";
  let description = [{ The buffer form of pipe.fragments, with its attributes. }];
  let arguments = (ins Pipe_LineAttr:$line, DenseI64ArrayAttr:$slots);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = [{
    $line `slots` $slots attr-dict-with-keyword $bodies
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PLAN_OPS
