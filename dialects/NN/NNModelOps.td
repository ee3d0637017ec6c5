//===- NNModelOps.td - Models, states, functions, steps ----*- tablegen -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_NN_MODEL_OPS
#define HEDDLE_DIALECTS_NN_MODEL_OPS

include "dialects/NN/NNDialect.td"
include "dialects/Dist/DistDialect.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def NN_ModelOp : NN_Op<"model", [
    IsolatedFromAbove, SymbolTable, Symbol, NoTerminator, NoRegionArguments,
    SingleBlock, RegionKindInterface,
    DeclareOpInterfaceMethods<RegionKindInterface, ["getRegionKind"]>]> {
  let summary = "A model: its states, layer functions and step programs.";
  let description = [{
    `config` is the model's config.json as it was read (a dictionary that is
    only carried along), `strategy` what the user chose, `phase` the last phase
    that is done, `weights` where the weights are:
    `{directory = "...", hash = "..."}`, or `{random = true, seed = 7 : i64}`, then
    with the `directory` of the tokenizer if the model had one.
    It also has what the runtime asks of the data: `vocab_size`,
    `max_positions`, the `objective` if it is not `#nn.objective<causal>`, and
    as far as they are known `segments` (how many there are), `mask_token` and
    `special_tokens`, which are never masked. `orders` names tensors with the
    order of a matrix's inputs that is as another tensor has it, or with "" as
    inputs stand: other weights have to be so, too.
    `stage` is set from the pipe phase on, when each stage is a model.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$family,
                       StrAttr:$phase, Dist_StrategyAttr:$strategy,
                       StrAttr:$config, DictionaryAttr:$weights,
                       OptionalAttr<I64Attr>:$stage);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `family` $family `phase` $phase attr-dict-with-keyword $body
  }];
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
  }];
  let hasRegionVerifier = 1;
}

def NN_StateOp : NN_Op<"state", [Symbol,
                                 DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor that lives across steps.";
  let description = [{
    Roles: parameter, derived (made of others by a function when weights are
    loaded), gradient, optimizer (what the optimizer keeps: of a parameter, or
    one number for all), accumulator, scalar (a number that a step computes
    before its first micro-batch, for all of them), saved (values that are kept
    from a micro-batch's forward to its backward pass; the first dimension
    counts slots), cache (keys or values of earlier tokens; the first dimension
    counts pages). A gradient names the parameter it belongs to, and so does
    what the optimizer keeps of a parameter: its own name is the parameter's
    with what it is, as `h.0.ln_1.weight.exp_avg`. A derived state that names
    its parameter is a copy of it, cast to the state's element type; the
    optimizer writes it with the parameter. Another one is made of a weight as
    `packed` says; the weight itself is no state then, and `source`, `init`,
    `storage`, `segments` and `whole` are the weight's.

    `source` says of which tensors of the weight files a state is made, and so
    what a checkpoint holds. `storage` says how the state is split over ranks,
    and over which axes a gradient is still a partial sum. `segments`
    are the parts of the last dimension that are split each for itself (packed
    q, k and v). `whole` is the type of the whole tensor where `type` is a rank's
    part of it, from the spmd phase on. `memory` is where it lives; what is not
    in the device's memory is read with dist.fetch and written with dist.store.

    ```mlir
    nn.state @ln_f.weight role parameter : tensor<768xf32>
      {checkpointed, source = #nn.source<"ln_f.weight" : tensor<768xf32>>, trainable, ...}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_StateRoleAttr:$role, TypeAttr:$type,
                       OptionalAttr<StrAttr>:$parameter,
                       UnitAttr:$trainable, UnitAttr:$checkpointed,
                       UnitAttr:$decays,
                       OptionalAttr<NN_SourceAttr>:$source,
                       OptionalAttr<NN_InitAttr>:$init,
                       OptionalAttr<Dist_TensorShardingAttr>:$storage,
                       OptionalAttr<DenseI64ArrayAttr>:$segments,
                       OptionalAttr<TypeAttr>:$whole,
                       OptionalAttr<NN_PackedAttr>:$packed,
                       DefaultValuedAttr<NN_MemoryAttr, "::heddle::nn::MemoryKind::Device">:$memory);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::heddle::nn::StateRole":$role,
                                 "::mlir::Type":$type,
                                 CArg<"::llvm::StringRef", "{}">:$parameter), [{
    $_state.addAttribute(getSymNameAttrName($_state.name), $_builder.getStringAttr(name));
    $_state.addAttribute(getRoleAttrName($_state.name), StateRoleAttr::get($_builder.getContext(), role));
    $_state.addAttribute(getTypeAttrName($_state.name), ::mlir::TypeAttr::get(type));
    if (!parameter.empty())
      $_state.addAttribute(getParameterAttrName($_state.name), $_builder.getStringAttr(parameter));
  }]>];
  let assemblyFormat = "$sym_name `role` `` $role `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
    /// Whether it is derived by a cast of its parameter alone.
    bool isCopy() { return getRole() == StateRole::Derived && !getPacked(); }
    /// What the optimizer calls it: its name without that of its parameter.
    ::llvm::StringRef getQuantity();
  }];
}

def NN_BucketOp : NN_Op<"bucket", [Symbol,
                                   DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "States that stand side by side in memory, read as one flat tensor.";
  let description = [{
    Every member begins at a multiple of 64 elements; the padding is zero. So
    buckets of the same members in other element types have the same element
    offsets. The memory phase lays members out in this order, without gaps
    other than that padding. `storage` splits the flat tensor over ranks: then it
    is padded to equal parts, a rank holds its part alone, and no member can be
    read or written by itself. Members are in one kind of memory. From the spmd
    phase on `type` is that part, and
    `elements` counts the flat tensor's.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefArrayAttr:$members,
                       TypeAttr:$type,
                       OptionalAttr<Dist_TensorShardingAttr>:$storage,
                       OptionalAttr<I64Attr>:$elements);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::ArrayAttr":$members,
                                 "::mlir::Type":$type), [{
    $_state.addAttribute(getSymNameAttrName($_state.name), $_builder.getStringAttr(name));
    $_state.addAttribute(getMembersAttrName($_state.name), members);
    $_state.addAttribute(getTypeAttrName($_state.name), ::mlir::TypeAttr::get(type));
  }]>];
  let assemblyFormat = "$sym_name $members `:` $type attr-dict";
  let hasVerifier = 1;
}

def NN_GetOp : NN_Op<"get", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                             MemoryEffects<[MemRead]>, NN_Rematerializable]> {
  let summary = "Reads a state or a bucket; with `slot`, that slot of a state.";
  let arguments = (ins FlatSymbolRefAttr:$state, Optional<Index>:$slot);
  let results = (outs AnyRankedTensor:$value);
  let builders = [OpBuilder<(ins "::mlir::Type":$type,
                                 "::llvm::StringRef":$state), [{
    build($_builder, $_state, type, state, ::mlir::Value());
  }]>];
  let assemblyFormat = "$state (`[` $slot^ `]`)? attr-dict `:` type($value)";
}

def NN_SetOp : NN_Op<"set", [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
                             MemoryEffects<[MemWrite]>]> {
  let summary = "Writes a state or a bucket; with `slot`, that slot of a state.";
  let arguments = (ins FlatSymbolRefAttr:$state, AnyRankedTensor:$value,
                       Optional<Index>:$slot);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$state,
                                 "::mlir::Value":$value), [{
    build($_builder, $_state, state, value, ::mlir::Value());
  }]>];
  let assemblyFormat = [{
    $state (`[` $slot^ `]`)? `,` $value attr-dict `:` type($value)
  }];
}

def NN_PackOp : NN_Op<"pack", [Pure]> {
  let summary = "Lays values side by side as the members of a bucket lie.";
  let description = [{
    Each begins at a multiple of 64 elements; the padding between them and behind
    the last is zero.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$members);
  let results = (outs AnyRankedTensor:$flat);
  let assemblyFormat = "$members attr-dict `:` functional-type($members, $flat)";
  let hasVerifier = 1;
}

def NN_UnpackOp : NN_Op<"unpack", [Pure]> {
  let summary = "The members of a flat tensor that nn.pack would make of them.";
  let description = [{ `shardings` are those of the members. }];
  let arguments = (ins AnyRankedTensor:$flat, OptionalAttr<ArrayAttr>:$shardings);
  let results = (outs Variadic<AnyRankedTensor>:$members);
  let assemblyFormat = "$flat attr-dict `:` functional-type($flat, $members)";
  let hasVerifier = 1;
}

class NN_FunctionLike<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([IsolatedFromAbove, FunctionOpInterface,
                                   Symbol], traits)> {
  let hasCustomAssemblyFormat = 1;
  let regions = (region AnyRegion:$body);
}

def NN_FuncOp : NN_FunctionLike<"func"> {
  let summary = "A layer, or the forward pass of the whole model.";
  let description = [{
    A layer takes its parameters as arguments, so that all its instances share
    one function. Scalars (layer index, micro-batch) have type `index`.
    `program` marks the forward pass that a step program is made from, with the
    ports that its arguments (`inputs`) and results (`outputs`) are.
    `ties` pairs results with arguments that share their memory (-1: none);
    set by the fuse phase.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<NN_ProgramKindAttr>:$program,
                       OptionalAttr<NN_PortArrayAttr>:$inputs,
                       OptionalAttr<NN_PortArrayAttr>:$outputs,
                       OptionalAttr<DenseI64ArrayAttr>:$ties,
                       OptionalAttr<ArrayAttr>:$arg_shardings,
                       OptionalAttr<ArrayAttr>:$result_shardings);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::mlir::FunctionType":$type)>];
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

def NN_StepOp : NN_FunctionLike<"step"> {
  let summary = "A step program: what the binary runs for one verb.";
  let description = [{
    Arguments and results are the program's ports, which `inputs` and `outputs`
    declare: the runtime finds them by their roles. `ports` is set by the spmd
    phase: the whole's type and the sharding of the ports that are split over
    ranks, by their keys.

    ```mlir
    nn.step @train(%ids: tensor<2x4x64xi32>) -> tensor<f32>
        attributes {inputs = [#nn.port<ids>], kind = #nn.program<train>,
                    outputs = [#nn.port<loss>]} { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, NN_ProgramKindAttr:$kind,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       NN_PortArrayAttr:$inputs, NN_PortArrayAttr:$outputs,
                       OptionalAttr<DictionaryAttr>:$ports,
                       OptionalAttr<ArrayAttr>:$arg_shardings,
                       OptionalAttr<ArrayAttr>:$result_shardings);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
                                 "::heddle::nn::ProgramKind":$kind,
                                 "::mlir::FunctionType":$type,
                                 "::mlir::ArrayAttr":$inputs,
                                 "::mlir::ArrayAttr":$outputs)>];
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

def NN_ReturnOp : NN_Op<"return", [Pure, Terminator]> {
  let summary = "Ends a function, a step, or the body of a micro-batch loop.";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "attr-dict ($operands^ `:` type($operands))?";
  let builders = [OpBuilder<(ins), [{}]>];
}

def NN_CallOp : NN_Op<"call", [CallOpInterface,
                               DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "An instance of a layer.";
  let description = [{
    `path` is the module path of the instance, as `h.3`. `recompute` overrides
    the strategy's choice for this instance.

    ```mlir
    %y = nn.call @block(%x, %w) path "h.3" : (...) -> tensor<4x64x768xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$operands,
                       StrAttr:$path, OptionalAttr<NN_RecomputeAttr>:$recompute,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = [{
    $callee `(` $operands `)` `path` $path (`recompute` `` $recompute^)? attr-dict
    `:` functional-type($operands, $results)
  }];
  let extraClassDeclaration = [{
    operand_range getArgOperands() { return getOperands(); }
    ::mlir::MutableOperandRange getArgOperandsMutable() {
      return getOperandsMutable();
    }
    ::mlir::CallInterfaceCallable getCallableForCallee() {
      return (*this)->getAttrOfType<::mlir::SymbolRefAttr>("callee");
    }
    void setCalleeFromCallable(::mlir::CallInterfaceCallable callee) {
      (*this)->setAttr("callee", callee.get<::mlir::SymbolRefAttr>());
    }
  }];
}

def NN_MicroBatchesOp : NN_Op<"micro_batches", [SingleBlock]> {
  let summary = "Runs its body once for each micro-batch, in order.";
  let description = [{
    The body's argument is the number of the micro-batch. Nothing is carried
    from one to the next but states.
  }];
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def NN_MicroBatchOp : NN_Op<"micro_batch", [Pure, NN_Rematerializable]> {
  let summary = "The part of a step's input that belongs to one micro-batch.";
  let arguments = (ins AnyRankedTensor:$input, Index:$index);
  let results = (outs AnyRankedTensor:$output);
  let assemblyFormat = [{
    $input `[` $index `]` attr-dict `:` type($input) `->` type($output)
  }];
  let hasVerifier = 1;
}

def NN_KeepOp : NN_Op<"keep"> {
  let summary = "Asks that a value be written by `--dump`, under `value.<path>`.";
  let arguments = (ins AnyRankedTensor:$value, StrAttr:$path);
  let assemblyFormat = "$value `as` $path attr-dict `:` type($value)";
}

#endif // HEDDLE_DIALECTS_NN_MODEL_OPS
