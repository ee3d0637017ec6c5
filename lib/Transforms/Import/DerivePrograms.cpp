//===- DerivePrograms.cpp - Makes the programs of a forward function ------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives the programs of a binary, such as training or generation, from the
// forward function. Each program gets a copy of the forward function and of its
// layers for the program's numbers of rows and tokens. The types of an
// operation's results follow from the types of its operands, because each
// operation has a sharding rule that says which of its dimensions are equal.
// Programs share equal copies of layers.
//
//===----------------------------------------------------------------------===//

#include "ForwardFunction.h"
#include "KeptPaths.h"
#include "Programs.h"
#include "dialects/NN/Phases.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Import/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include <list>

using namespace mlir;
using namespace heddle;
using dist::FactorRole;
using nn::PortRole;

namespace heddle {
#define GEN_PASS_DEF_IMPORTDERIVEPROGRAMS
#include "include/heddle/Transforms/Import/Passes.h.inc"
} // namespace heddle

namespace {

/// The properties that distinguish copies of a layer. Calls with equal variants
/// share a copy.
struct Variant {
  nn::FuncOp layer;
  SmallVector<Type> arguments;
  bool dropout = false;
  std::vector<std::string> kept; ///< Paths in the layer of values to dump.
  bool whole = false;  ///< Whether all ranks have all rows and tokens.
  bool cached = false; ///< Whether attention will read a cache.
  bool operator==(const Variant &other) const {
    return layer == other.layer && arguments == other.arguments &&
           dropout == other.dropout && kept == other.kept &&
           whole == other.whole && cached == other.cached;
  }
};

/// A copy of a layer, which programs call.
struct Instance {
  Variant variant;
  nn::FuncOp function;
  /// The indices of those arguments of the original layer that the copy has.
  SmallVector<unsigned> arguments;
};

/// A forward function and what is known about it.
struct Source {
  explicit Source(nn::FuncOp forward)
      : forward(forward), kept(forward), head(findHead(forward)) {}

  nn::FuncOp forward;
  KeptPaths kept;
  Head head;
};

/// Derives all programs of the binary, such as training or generation, from the
/// forward function.
class Deriver {
public:
  /// `forwards` are the forward functions in the order of their phases; a model
  /// without phases has one.
  Deriver(nn::ModelOp model, ArrayRef<nn::FuncOp> forwards, int64_t guesses)
      : model(model), sources(forwards.begin(), forwards.end()),
        forward(forwards.back()), guesses(guesses),
        strategy(model.getStrategy().getValue()), builder(model.getContext()),
        kept(forward) {}

  LogicalResult run();

private:
  /// Derives the next programs from this forward function.
  void use(const Source &source);
  void buildAll(bool drops, bool generates, bool isHeadless);
  void build(const DerivedProgram &program);
  nn::FuncOp begin(const DerivedProgram &program, IRMapping &values,
                   Value &labels, Value &position);
  nn::FuncOp beginFunction(nn::FuncOp like, StringRef name,
                           ArrayRef<Type> arguments,
                           ArrayRef<Location> locations);
  Value loss(nn::FuncOp function, Value logits, Value labels);

  Operation *copy(Operation &op, IRMapping &values,
                  const DerivedProgram &program);
  void copyCall(nn::CallOp call, IRMapping &values,
                const DerivedProgram &program);
  /// The copy of a layer with the properties `variant`. It is made when it is
  /// first asked for.
  Instance &instance(const Variant &variant, const DerivedProgram &program);
  /// For a program that returns the logits of a single token: computes the
  /// slice of `value` for the token at `position`, and enters it into the map
  /// `rows` under the key `value`.
  void takeRow(Value value, IRMapping &values, IRMapping &rows, Value position);

  nn::ModelOp model;
  SmallVector<Source> sources;
  nn::FuncOp forward; ///< The forward function that is being used.
  const int64_t guesses;
  const dist::Strategy strategy;
  OpBuilder builder;
  KeptPaths kept;
  Head head;
  llvm::StringMap<nn::FuncOp> layers;
  std::list<Instance> instances;
  llvm::StringSet<> names;
};

} // namespace

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

/// Infers the result types of a copied operation from the new types of its
/// operands: dimensions with the same factor in the operation's sharding rule
/// have the same size.
static void inferTypes(Operation &op, Operation *copied,
                       const DerivedProgram &program) {
  auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(op);
  if (!ruled)
    return;
  dist::ShardingRule rule = ruled.getShardingRule();
  SmallVector<std::optional<int64_t>> sizes(rule.factors.size());
  for (auto [dims, before, after] : llvm::zip(
           rule.operands, op.getOperandTypes(), copied->getOperandTypes()))
    if (before != after)
      for (auto [factor, old, size] :
           llvm::zip(dims, cast<RankedTensorType>(before).getShape(),
                     cast<RankedTensorType>(after).getShape()))
        if (old != size)
          sizes[factor] = size;
  // An operation without operands, such as nn.positions, gets the program's
  // numbers of rows and tokens.
  if (op.getNumOperands() == 0) {
    for (auto [factor, size] : llvm::zip(rule.factors, sizes))
      size = factor.role == FactorRole::Rows     ? program.rows
             : factor.role == FactorRole::Tokens ? program.tokens
                                                 : factor.size;
  }
  for (auto [dims, result, before] :
       llvm::zip(rule.results, copied->getResults(), op.getResultTypes())) {
    auto type = cast<RankedTensorType>(before);
    SmallVector<int64_t> shape(type.getShape());
    for (auto [factor, size] : llvm::zip(dims, shape))
      size = sizes[factor].value_or(size);
    result.setType(type.clone(shape));
  }
}

Operation *Deriver::copy(Operation &op, IRMapping &values,
                         const DerivedProgram &program) {
  if (auto dropout = dyn_cast<nn::DropoutOp>(op); dropout && !program.dropout) {
    values.map(dropout.getOutput(), values.lookup(dropout.getInput()));
    return nullptr;
  }
  Operation *copied = builder.clone(op, values);
  inferTypes(op, copied, program);
  if (auto attention = dyn_cast<nn::AttentionOp>(copied);
      attention && !program.dropout) {
    attention.getRngMutable().clear();
    attention.getLayerMutable().clear();
    attention.getMicroBatchMutable().clear();
    attention.removeDropoutAttr();
  }
  return copied;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

nn::FuncOp Deriver::beginFunction(nn::FuncOp like, StringRef name,
                                  ArrayRef<Type> arguments,
                                  ArrayRef<Location> locations) {
  std::string unique = name.str();
  for (unsigned i = 2; !names.insert(unique).second; ++i)
    unique = (name + "." + Twine(i)).str();
  builder.setInsertionPointToEnd(model.getBodyBlock());
  auto function = builder.create<nn::FuncOp>(
      like.getLoc(), unique, builder.getFunctionType(arguments, {}),
      /*arg_attrs=*/ArrayAttr(), /*res_attrs=*/ArrayAttr(),
      /*program=*/nn::ProgramKindAttr(), /*inputs=*/ArrayAttr(),
      /*outputs=*/ArrayAttr(), /*phase=*/nn::PhaseAttr(),
      /*ties=*/DenseI64ArrayAttr(),
      /*arg_shardings=*/ArrayAttr(), /*result_shardings=*/ArrayAttr());
  Block &body = function.getBody().emplaceBlock();
  body.addArguments(arguments, locations);
  builder.setInsertionPointToEnd(&body);
  return function;
}

/// Erases constants and arguments of the copied layer that were only needed for
/// dropout. Returns the indices, in the original layer, of the arguments that
/// the copy still has.
static SmallVector<unsigned> eraseUnused(nn::FuncOp layer, nn::FuncOp copied) {
  Block &body = copied.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (isa<arith::ConstantOp>(op) && op.use_empty())
      op.erase();
  SmallVector<unsigned> left;
  BitVector unused(body.getNumArguments());
  for (BlockArgument argument : layer.getBody().getArguments()) {
    unsigned number = argument.getArgNumber();
    if (!argument.use_empty() && body.getArgument(number).use_empty())
      unused.set(number);
    else
      left.push_back(number);
  }
  body.eraseArguments(unused);
  return left;
}

Instance &Deriver::instance(const Variant &variant,
                            const DerivedProgram &program) {
  for (Instance &known : instances)
    if (known.variant == variant)
      return known;
  OpBuilder::InsertionGuard guard(builder);
  Instance &made = instances.emplace_back();
  made.variant = variant;
  nn::FuncOp layer = variant.layer;
  std::string name = layer.getSymName().str();
  if (!variant.kept.empty())
    name += ".keep" + std::to_string(instances.size());
  else if (program.kind == nn::ProgramKind::Eval)
    name += ".eval";
  else if (program.kind != nn::ProgramKind::Train)
    name += "." + program.name;
  Block &from = layer.getBody().front();
  made.function =
      beginFunction(layer, name, variant.arguments,
                    llvm::map_to_vector(from.getArguments(), [](Value value) {
                      return value.getLoc();
                    }));
  IRMapping values;
  values.map(from.getArguments(), made.function.getArguments());
  llvm::StringMap<Value> offered;
  for (Operation &op : from.without_terminator())
    if (auto keep = dyn_cast<nn::KeepOp>(op))
      offered[keep.getPath()] = values.lookup(keep.getValue());
    else if (auto call = dyn_cast<nn::CallOp>(op))
      copyCall(call, values, program);
    else
      copy(op, values, program);
  auto results =
      llvm::map_to_vector(from.getTerminator()->getOperands(),
                          [&](Value value) { return values.lookup(value); });
  for (const std::string &path : variant.kept)
    results.push_back(offered.lookup(path));
  builder.create<nn::ReturnOp>(from.getTerminator()->getLoc(), results);
  made.arguments = eraseUnused(layer, made.function);
  updateFunctionType(made.function);
  return made;
}

void Deriver::copyCall(nn::CallOp call, IRMapping &values,
                       const DerivedProgram &program) {
  StringRef path = call.getPath();
  Variant variant;
  variant.layer = layers.lookup(call.getCallee());
  SmallVector<Value> operands;
  for (Value operand : call.getOperands()) {
    // The operand is null if it holds the random numbers of dropout and the
    // program has no dropout.
    operands.push_back(values.lookupOrNull(operand));
    variant.arguments.push_back(
        (operands.back() ? operands.back() : operand).getType());
  }
  variant.dropout = program.dropout;
  bool isForward = call->getParentOp() == forward;
  if (program.keeps && isForward)
    variant.kept = kept.within(path);
  // Only programs with a loss may split rows and tokens over ranks.
  variant.whole = !program.hasLoss() &&
                  strategy.data * strategy.sequence * strategy.tensor > 1;
  variant.cached = program.isCached();
  Instance &callee = instance(variant, program);
  auto copied = builder.create<nn::CallOp>(
      call.getLoc(), callee.function,
      llvm::map_to_vector(callee.arguments,
                          [&](unsigned i) { return operands[i]; }),
      call.getPathAttr());
  for (auto [before, after] : llvm::zip(call.getResults(), copied.getResults()))
    values.map(before, after);
  auto keep = [&](Value value, std::string name) {
    auto loc = NameLoc::get(builder.getStringAttr(name));
    builder.create<nn::KeepOp>(loc, value, name);
  };
  for (auto [index, inner] : llvm::enumerate(variant.kept))
    keep(copied.getResult(call.getNumResults() + index),
         (path + "." + inner).str());
  if (program.keeps && isForward && kept.contains(path))
    keep(copied.getResult(0), path.str());
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void Deriver::takeRow(Value value, IRMapping &values, IRMapping &rows,
                      Value position) {
  Value whole = values.lookup(value);
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = 1;
  rows.map(value, builder.create<nn::TakeRowOp>(
                      logitsOf(forward).getLoc(), type.clone(shape), whole,
                      position, /*shardings=*/ArrayAttr()));
}

/// Creates the function of a program, with its ports (inputs and outputs). The
/// map `values` gets the new argument for each argument of the forward
/// function.
nn::FuncOp Deriver::begin(const DerivedProgram &program, IRMapping &values,
                          Value &labels, Value &position) {
  SmallVector<Type> types;
  SmallVector<Attribute> ports;
  SmallVector<Value> given; // Null for what the forward function does not have.
  auto add = [&](Value value, Type type, nn::PortAttr port) {
    given.push_back(value);
    types.push_back(type);
    ports.push_back(port);
  };
  auto portOf = [&](PortRole role) {
    return nn::PortAttr::get(builder.getContext(), role);
  };
  for (auto [argument, attribute] :
       llvm::zip(forward.getArguments(), *forward.getInputs())) {
    auto port = cast<nn::PortAttr>(attribute);
    Type type = argument.getType();
    if (port.isOfBatch()) {
      auto tensor = cast<RankedTensorType>(type);
      SmallVector<int64_t> shape = {program.rows};
      if (port.isOfTokens())
        shape.push_back(program.tokens);
      type = tensor.clone(shape);
    } else if (!program.dropout) {
      continue; // Random numbers and micro-batch: only dropout needs them.
    }
    add(argument, type, port);
    if (port.getRole() == PortRole::Ids && program.hasLoss())
      add({}, type, portOf(PortRole::Labels));
  }
  if (program.takesRow())
    add({}, RankedTensorType::get({}, builder.getI32Type()),
        portOf(PortRole::Position));
  SmallVector<Location> locations(types.size(), forward.getLoc());
  nn::FuncOp function = beginFunction(forward, program.name, types, locations);
  function.setProgram(program.kind);
  if (program.kind == nn::ProgramKind::Train)
    function.setPhaseAttr(forward.getPhaseAttr());
  function.setInputsAttr(builder.getArrayAttr(ports));
  for (auto [value, argument, port] :
       llvm::zip(given, function.getArguments(), ports)) {
    PortRole role = cast<nn::PortAttr>(port).getRole();
    if (value)
      values.map(value, argument);
    else
      (role == PortRole::Labels ? labels : position) = argument;
  }
  return function;
}

Value Deriver::loss(nn::FuncOp function, Value logits, Value labels) {
  // Label smoothing is only for training: evaluation reports the loss without
  // it.
  double smoothing = function.getProgram() == nn::ProgramKind::Train
                         ? strategy.labelSmoothing
                         : 0;
  auto type = cast<RankedTensorType>(logits.getType());
  auto losses = type.clone(type.getShape().drop_back());
  auto loc = NameLoc::get(builder.getStringAttr("loss"));
  return builder
      .create<nn::CrossEntropyOp>(loc, losses, losses, logits, labels,
                                  builder.getF64FloatAttr(smoothing),
                                  /*shardings=*/ArrayAttr())
      .getLosses();
}

void Deriver::build(const DerivedProgram &program) {
  IRMapping values, rows;
  Value labels, position;
  nn::FuncOp function = begin(program, values, labels, position);
  auto takeRows = [&](ValueRange made) {
    for (Value value : made)
      if (program.takesRow() && head.inputs.contains(value))
        takeRow(value, values, rows, position);
  };
  takeRows(forward.getArguments());
  for (Operation &op : forward.getBody().front().without_terminator()) {
    bool ofOneToken = program.takesRow() && head.operations.contains(&op);
    if (auto keep = dyn_cast<nn::KeepOp>(op)) {
      if (program.keeps && kept.contains(keep.getPath()))
        copy(op, values, program);
    } else if (auto call = dyn_cast<nn::CallOp>(op)) {
      copyCall(call, values, program);
    } else if (ofOneToken) {
      // The program computes this operation for one token only. So an operand
      // with a row for each token is replaced by the row of that token.
      IRMapping mixed = values;
      for (Value operand : op.getOperands())
        if (Value row = rows.lookupOrNull(operand))
          mixed.map(operand, row);
      Operation *copied = copy(op, mixed, program);
      rows.map(op.getResults(), copied->getResults());
    } else {
      copy(op, values, program);
    }
    takeRows(op.getResults());
  }
  Value logits = logitsOf(forward);
  Location loc = NameLoc::get(builder.getStringAttr("loss"));
  SmallVector<Value> results;
  SmallVector<PortRole> roles;
  if (program.kind == nn::ProgramKind::Encode) {
    results = {values.lookup(hiddenOf(forward))};
    roles = {PortRole::Hidden};
    if (program.logits) {
      results.push_back(values.lookup(logits));
      roles.push_back(PortRole::Logits);
    }
    loc = logits.getLoc();
  } else if (!program.hasLoss()) {
    results = {(program.takesRow() ? rows : values).lookup(logits)};
    roles = {PortRole::Logits};
    loc = logits.getLoc();
  } else {
    results = {loss(function, values.lookup(logits), labels)};
    roles = {PortRole::Losses};
    if (program.keeps && kept.keepsLogits()) {
      results.push_back(values.lookup(logits));
      roles.push_back(PortRole::Logits);
    }
  }
  builder.create<nn::ReturnOp>(loc, results);
  // Constants that were only needed for dropout are erased. If nothing reads
  // the logits, the head is erased, too.
  Block &body = function.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && (isa<arith::ConstantOp>(op) ||
                           (!program.logits && op.getNumResults() > 0)))
      op.erase();
  function.setOutputsAttr(builder.getArrayAttr(
      llvm::map_to_vector(roles, [&](PortRole role) -> Attribute {
        return nn::PortAttr::get(builder.getContext(), role);
      })));
  updateFunctionType(function);
}

void Deriver::use(const Source &source) {
  forward = source.forward;
  kept = source.kept;
  head = source.head;
}

/// Builds the programs: a train program from each forward function, and all
/// others from the last one, because its phase has no end.
void Deriver::buildAll(bool drops, bool generates, bool isHeadless) {
  for (const DerivedProgram &program :
       programsOf(strategy, drops, generates, guesses)) {
    if (isHeadless && program.logits)
      continue;
    if (program.kind != nn::ProgramKind::Train) {
      build(program);
      continue;
    }
    for (const Source &source : sources) {
      use(source);
      DerivedProgram own = program;
      if (nn::PhaseAttr phase = forward.getPhaseAttr())
        own.name = nn::programName(program.kind, phase);
      build(own);
    }
  }
}

LogicalResult Deriver::run() {
  for (Source &source : sources)
    if (failed(source.kept.choose(strategy.keep)))
      return failure();
  use(sources.back());
  bool canGenerate = generates(forward);
  if (strategy.mode == config::Mode::Serve && !canGenerate) {
    InFlightDiagnostic error =
        model.emitError("H0127: --mode serve continues texts, and this model "
                        "cannot");
    error.attachNote() << "help: a model continues a text if it reads nothing "
                          "but ids and its attention is causal; leave out "
                          "--mode serve";
    return error;
  }
  if (strategy.mode == config::Mode::Encode && !hiddenOf(forward)) {
    InFlightDiagnostic error =
        model.emitError("H0127: --mode encode is for encoders, and this model "
                        "does not say which values are its hidden states");
    error.attachNote() << (canGenerate ? "help: it continues texts: use --mode "
                                         "serve"
                                       : "help: name them with nn.keep "
                                         "\"hidden\"");
    return error;
  }
  bool isHeadless = logitsOf(forward) == hiddenOf(forward);
  if (strategy.mode != config::Mode::Encode && isHeadless) {
    InFlightDiagnostic error = model.emitError(
        "H0127: the weights have no head, and only encoders need none");
    error.attachNote() << "help: add --mode encode; to train, save the model "
                          "with its head, as BertForMaskedLM does";
    return error;
  }
  if (strategy.objective == config::Objective::Causal && seesWhatFollows(model))
    model.emitWarning("--objective causal: attention sees what follows a "
                      "token, its label too, so the loss says little");
  bool drops = model
                   .walk([](Operation *op) {
                     return dropsOut(op) ? WalkResult::interrupt()
                                         : WalkResult::advance();
                   })
                   .wasInterrupted();
  for (auto function : llvm::make_early_inc_range(model.getOps<nn::FuncOp>())) {
    layers[function.getSymName()] = function;
    function->remove();
  }
  buildAll(drops, canGenerate, isHeadless);
  if (strategy.mode != config::Mode::Train)
    for (auto state : model.getOps<nn::StateOp>())
      state.setTrainable(false);
  for (auto &layer : layers)
    layer.second->erase();
  return success();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct DerivePrograms : heddle::impl::ImportDeriveProgramsBase<DerivePrograms> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(derive(getOperation())))
      signalPassFailure();
  }

private:
  /// The forward function is the only function that has ports (inputs and
  /// outputs with names) and is not yet a program. A model that trains in
  /// several phases has one for each phase.
  LogicalResult derive(nn::ModelOp model) {
    SmallVector<nn::FuncOp> forwards;
    nn::FuncOp program;
    for (auto function : model.getOps<nn::FuncOp>()) {
      if (function.getProgram())
        program = function;
      if (!function.getInputs() || function.getProgram())
        continue;
      if (!forwards.empty() &&
          (!forwards.back().getPhase() || !function.getPhase()))
        return function.emitError(
            "H0358: a second forward function; give one of them no ports, or "
            "each a phase, such as #nn.phase<\"late\", from_step = 5>");
      forwards.push_back(function);
    }
    if (forwards.empty())
      return success();
    if (program)
      return program.emitError("H0358: programs are derived from the forward "
                               "function; leave this one out");
    for (nn::FuncOp forward : forwards)
      if (failed(verifyForward(forward)))
        return failure();
    llvm::stable_sort(forwards, [](nn::FuncOp a, nn::FuncOp b) {
      return nn::toPlan(a.getPhaseAttr()).from <
             nn::toPlan(b.getPhaseAttr()).from;
    });
    return Deriver(model, forwards, guesses).run();
  }
};

} // namespace
