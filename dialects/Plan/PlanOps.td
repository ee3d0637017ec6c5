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
    argument whose memory result i takes over, or -1. `generator` names what
    makes its code: rows (element-wise chains and reductions over the last
    dimension), gemm, attention, ... (`#plan.generator<gemm>`). From the kernels phase on `symbol` names
    the function in the object `object`, and `hash` is that of the kernel and
    the target. `pitches` has a number for each argument, and then for each
    result that is not tied: the elements from the begin of a row, which is the
    last dimension, to that of the next; 0: rows without gaps. What lies between
    rows nobody reads.

    For a CPU every thread of the pool calls the function, and `scratch_bytes` is
    what each of them needs. Its arguments are the tensor arguments in order,
    then the results that are not tied; scalars (index) apart, in order.

    For a GPU `launches` names the functions that are launched one after the
    other, and `scratch_bytes` is what they share. Each takes the addresses of
    the tensor arguments in order, then of the results that are not tied, then
    the address of the scratch memory (only if there is some), then the scalars
    as 64-bit integers. `library` is a call of cuBLASLt with the same addresses
    that may take the launches' place.

    With `on_host` the cores beside a GPU run it, on memory of the kinds host and
    pinned: its code is that of a CPU, and it has no scratch memory.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       Plan_GeneratorAttr:$generator,
                       DenseI64ArrayAttr:$ties,
                       OptionalAttr<DenseI64ArrayAttr>:$pitches,
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
    /// The types of the arguments, then of the results that are not tied: of
    /// the operands of a launch in the buffer form.
    ::llvm::SmallVector<::mlir::Type> getLaunchTypes();
    /// The number of a result among these operands: that of its argument where
    /// it is tied.
    unsigned getLaunchOperandOf(unsigned result);
    /// An operand's pitch in elements; 0 for rows without gaps.
    int64_t getPitch(unsigned operand) {
      return getPitches() ? (*getPitches())[operand] : 0;
    }
    /// The memory that an operand takes: a memref with its pitch, or the type of
    /// a number.
    ::mlir::Type getBufferType(unsigned operand);
    /// The scratch memory that it may take, in whichever way it is computed.
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
  let summary = "Compiled code: what the target of the kernels makes.";
  let description = [{
    For a CPU a relocatable ELF object as base64 text, for a GPU the text of PTX.
    `hash` is that of the code, of its symbol and scratch memory, and of the
    kernel that it was made from. Who reads a dump checks it before the code runs.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$data,
                       OptionalAttr<StrAttr>:$hash);
  let assemblyFormat = "$sym_name $data attr-dict";
}

/// The stream of a command that may be of several; `compute` unless it is said.
def Plan_OnStream
    : DefaultValuedAttr<Plan_StreamAttr, "::heddle::planir::Stream::Compute">;

def Plan_LaunchOp : Plan_Op<"launch", [
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Runs a kernel on every thread of the pool.";
  let description = [{
    Value form: `%y = plan.launch @k(%x, %w) : (tensor...) -> tensor...`.
    Buffer form: `plan.launch @k(%x, %w, %y) : (memref...) -> ()`, the operands
    in the order of the compiled function, scalars included in place. Kernels run
    on the stream `compute` alone, as they share the scratch memory of its
    threads; kernels with `on_host` on the stream `host`:

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
    Takes the place of `nn.model` at the memory phase and keeps its attributes.
    Sizes are in bytes, rounded up to pages, for each kind of memory. `owners`
    says who has how many. `staging_bytes` of pinned memory are the runtime's:
    a GPU's copies from and to files go through them. `files` gives for each
    role its part of what is persistent on file, as `{optimizer = 8192}`: they
    stand in the order optimizer, parameters, gradients, activations. A rank has
    a file for each.
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
}

/// Where something stands; the device's memory unless it is said.
def Plan_InMemory
    : DefaultValuedAttr<NN_MemoryAttr, "::heddle::nn::MemoryKind::Device">;

def Plan_StateOp : Plan_Op<"state", [
    Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A state with its place in the persistent region of its memory.";
  let description = [{
    `like` keeps every attribute of the nn.state. A member of a bucket that is
    split over ranks has no place of its own: `flat` names the bucket, and
    `offset` is its first element in the flat tensor.
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
    `type` is the part, `elements` the size of the whole, `axes` the axes that
    split it.
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
    `ports` gives, for the ports of a step program that are split over ranks, the
    type of the whole and the sharding, by their keys:
    `{ids = {whole = tensor<1x8x64xi32>, sharding = #dist.sharding<...>}}`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       I64Attr:$frame_bytes,
                       OptionalAttr<NN_ProgramKindAttr>:$kind,
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
  let summary = "Bytes of the frame: offset, and first and last command that use them.";
  let description = [{
    `input` or `output` says that it is this port of a step program; such a
    buffer lives for the whole program. `owner` says what the bytes hold, for
    the memory map. In memory that is not the device's, only a step program has a
    frame: all of that memory's arena. Rows may begin a pitch apart, as kernels
    ask for it; such a buffer goes to launches alone. With `settled` a run finds
    it in use by what the run before has left, up to that command.

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
  let results = (outs Plan_PitchedMemory:$buffer);
  let extraClassDeclaration = [{
    /// The port that it is, or null.
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
  let summary = "The bytes of a state, or of a run of states from this one on.";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Plan_Memory:$buffer);
  let assemblyFormat = "$state attr-dict `:` type($buffer)";
}

def Plan_SliceOp : Plan_Op<"slice", [Pure]> {
  let summary = "The part of a buffer that a number chooses.";
  let description = [{
    The number is that of an iteration, a slot, or of this rank. Either the source
    has the part's dimensions behind its first, or its first dimension that is not
    1 is several times as long as the part's: it holds parts one after the other.
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
  let summary = "The number of this rank among those along some axes.";
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs Index:$index);
  let assemblyFormat = "$axes attr-dict `:` type($index)";
  let hasVerifier = 1;
}

def Plan_CallOp : Plan_Op<"call", [
    Plan_CommandOp, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a sequence; its frame stands at `frame_offset` in the caller's.";
  let arguments = (ins FlatSymbolRefAttr:$sequence, Variadic<AnyType>:$operands,
                       I64Attr:$frame_offset, StrAttr:$path);
  let assemblyFormat = [{
    $sequence `(` $operands `)` `frame` $frame_offset `path` $path attr-dict `:` type($operands)
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
    The commands that reach memory of every kind are this, plan.copy_rows and plan.fill. On the
    streams `copy` and `store` it runs beside kernels:

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
    $target `,` $source (`on` $stream^)? attr-dict `:` type($target) `,` type($source)
  }];
  let hasVerifier = 1;
}

def Plan_CopyRowsOp : Plan_Op<"copy_rows", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getAccesses", "getOwnStream"]>]> {
  let summary = "Copies the rows of `source` that `ids` name to `target`.";
  let description = [{
    Row t of the target is row `ids[t]` of the source; an id that is no row of it
    gives bytes of ones, NaN in every floating type. With `first` the source is a
    part of a table, from that row on: an id gives row `ids[t] - first`, and zeros
    if that is no row of the part. The source is in memory of another kind than the
    device's, where the target and the ids are.

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
  let summary = "Writes zeros.";
  let arguments = (ins Plan_Memory:$target, Plan_OnStream:$stream);
  let assemblyFormat = [{
    $target (`on` $stream^)? attr-dict `:` type($target)
  }];
  let hasVerifier = 1;
}

def Plan_RecordOp : Plan_Op<"record", [
    DeclareOpInterfaceMethods<Plan_CommandOp, ["getOwnStream", "getSignal"]>]> {
  let summary = "Gives a token of the point that a stream has come to.";
  let description = [{
    With `carried` a run of the program may end before the stream has come there:
    the next run finds that point by its number, see plan.settle.
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
  let summary = "Lets a stream wait for a point that the run before has come to or left.";
  let description = [{
    It is that of the record with this `carried` number, in the last run of the
    program; in the first run there is nothing to wait for. Who runs another
    program, or ends, waits for all points.

    ```mlir
    plan.settle 0
    ...
    plan.copy %moment, %window on store : memref<64xf32>, memref<64xf32>
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
    The target may be, or hold, the source. Seen as [outer, parts, inner], the larger buffer of
    reduce_scatter and all_gather is split along the middle, for each of
    `segments` apart (sizes in elements of the whole split dimension times what
    is behind it). all_to_all gathers along `outer` and `segments`, and splits
    along `split_outer` and `split_segments`. Neither
    buffer may be used otherwise until a plan.wait; `staging` holds what arrives
    on the way. A rank runs its collectives one after the other, in the order of
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
  let summary = "Lets a stream wait for a communication or a point of another.";
  let description = [{
    For a collective, the stream `compute` alone can wait, and does so once.
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
    The buffer must not be written before the plan.flush of the channel that
    comes before the writing command.
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
  let summary = "Waits for what the rank `delta` further along an axis sends.";
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
  let description = [{ As pipe.fragments, whose attributes it keeps. }];
  let arguments = (ins Pipe_LineAttr:$line, DenseI64ArrayAttr:$slots);
  let regions = (region VariadicRegion<SizedRegion<1>>:$bodies);
  let assemblyFormat = [{
    $line `slots` $slots attr-dict-with-keyword $bodies
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_DIALECTS_PLAN_OPS
