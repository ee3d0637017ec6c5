//===- SplitLayers.cpp - Programs that compute one layer each -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes programs for the calibration of GPTQ that run one layer at a time. Each
// program is a copy of the evaluation program (`eval`) that returns the results
// of one call of a layer. Operations that these results do not need are left
// out. If the program needs results of other calls, they become its inputs.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"
#include "heddle/Transforms/Common/FunctionTypes.h"
#include "heddle/Transforms/Train/Passes.h"

using namespace mlir;
using namespace heddle;
using nn::PortRole;

namespace heddle {
#define GEN_PASS_DEF_TRAINSPLITLAYERS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

/// Erases operations without uses, from the last to the first.
static void eraseUnused(Block &body) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (op.use_empty() && !isa<nn::ReturnOp>(op))
      op.erase();
}

/// Makes a function return `results`, and erases the operations that `results`
/// do not need.
static void giveResults(nn::FuncOp function, ValueRange results) {
  Block &body = function.getBody().front();
  body.getTerminator()->setOperands(results);
  eraseUnused(body);
  updateFunctionType(function);
}

namespace {

/// A copy of a layer function that returns the second moments of the inputs of
/// some of the layer's matrix products.
struct Moments {
  nn::FuncOp function;
  /// Each result of `function` is the second moments of the input of one matrix
  /// product. Entry i of this list is the index of the argument of `function`
  /// that is the weight of the product that belongs to result i.
  SmallVector<unsigned> weights;
};

/// Makes the calibration programs of a model from its program `eval`.
class Splitter {
public:
  Splitter(nn::ModelOp model, nn::FuncOp eval, bool isSequential)
      : model(model), eval(eval), isSequential(isSequential), symbols(model) {}

  LogicalResult run();

private:
  using Rewrite = llvm::function_ref<SmallVector<Value>(nn::CallOp)>;
  LogicalResult add(const Twine &name, size_t number, Rewrite rewrite,
                    ArrayRef<Attribute> outputs);
  LogicalResult addLayer(size_t number);
  LogicalResult addInputs(size_t number);
  ArrayRef<Moments> momentsIn(nn::FuncOp layer);
  LogicalResult addStage(size_t number, size_t &stage, const Moments &moments);
  void keepOnly(const llvm::SmallDenseSet<Operation *> &programs);

  nn::ModelOp model;
  nn::FuncOp eval;
  bool isSequential;
  SymbolTable symbols;
  SmallVector<nn::CallOp> calls;
  DenseMap<Operation *, SmallVector<Moments>> known;
  llvm::SmallDenseSet<Operation *> programs;
};

struct SplitLayers : heddle::impl::TrainSplitLayersBase<SplitLayers> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    for (auto function : llvm::make_early_inc_range(model.getOps<nn::FuncOp>()))
      if (function.getProgram() == nn::ProgramKind::Eval) {
        if (failed(Splitter(model, function, sequential).run()))
          signalPassFailure();
        return;
      }
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Second moments
//===----------------------------------------------------------------------===//

/// The second moments of a product's input x: the sums over tokens of x[i]
/// x[j].
static Value momentsOf(nn::LinearOp product) {
  Value input = product.getInput();
  int64_t width = cast<RankedTensorType>(input.getType()).getShape().back();
  OpBuilder builder(product);
  return builder.create<nn::LinearGradWeightOp>(
      product.getLoc(),
      RankedTensorType::get({width, width}, builder.getF32Type()), input, input,
      /*init=*/Value(), /*transposed=*/false, /*shardings=*/ArrayAttr());
}

/// Groups the products whose weight is an argument of the layer; GPTQ
/// calibrates the products of a group together. With `isSequential`, products
/// that read the same value form a group, and the groups are in the order of
/// computation. Otherwise all products form one group.
static SmallVector<SmallVector<nn::LinearOp>> productsOf(nn::FuncOp layer,
                                                         bool isSequential) {
  SmallVector<SmallVector<nn::LinearOp>> stages;
  llvm::SmallDenseSet<Value> weights;
  DenseMap<Value, size_t> stageOf;
  for (auto product : layer.getBody().getOps<nn::LinearOp>()) {
    if (!isa<BlockArgument>(product.getWeight()) ||
        !weights.insert(product.getWeight()).second)
      continue;
    Value read = isSequential ? product.getInput() : Value();
    auto [stage, isNew] = stageOf.insert({read, stages.size()});
    if (isNew)
      stages.emplace_back();
    stages[stage->second].push_back(product);
  }
  return stages;
}

/// The copies of a layer that return second moments of the inputs of matrix
/// products: one copy for each group of products that GPTQ calibrates together.
/// The copies are made when they are first asked for.
ArrayRef<Moments> Splitter::momentsIn(nn::FuncOp layer) {
  auto [entry, isNew] = known.try_emplace(layer);
  if (!isNew)
    return entry->second;
  size_t count = productsOf(layer, isSequential).size();
  for (size_t stage = 0; stage < count; ++stage) {
    auto function = cast<nn::FuncOp>(layer->clone());
    function.setSymName((layer.getSymName() + ".inputs." + Twine(stage)).str());
    Moments moments{function, {}};
    DenseMap<Value, Value> made; // Several products may read one value.
    SmallVector<Value> results;
    auto products = productsOf(function, isSequential);
    for (nn::LinearOp product : products[stage]) {
      Value &sums = made[product.getInput()];
      if (!sums)
        sums = momentsOf(product);
      results.push_back(sums);
      moments.weights.push_back(
          cast<BlockArgument>(product.getWeight()).getArgNumber());
    }
    giveResults(function, results);
    symbols.insert(function);
    entry->second.push_back(std::move(moments));
  }
  return entry->second;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The results of other calls that `call` needs, directly or through operations
/// that are not calls.
static llvm::SetVector<Value> valuesOfOthers(nn::CallOp call) {
  llvm::SetVector<Value> found;
  llvm::SmallDenseSet<Operation *> seen = {call};
  SmallVector<Operation *> open = {call};
  while (!open.empty())
    for (Value operand : open.pop_back_val()->getOperands()) {
      Operation *definition = operand.getDefiningOp();
      if (isa_and_present<nn::CallOp>(definition))
        found.insert(operand);
      else if (definition && seen.insert(definition).second)
        open.push_back(definition);
    }
  return found;
}

/// Replaces the result of the call `before` by a new input of the program,
/// whose port (the description of an input) is `hidden`. Operations that read
/// the result, such as `call`, then read the input. Fails (H0153) if `call`
/// also depends on results of other calls.
static LogicalResult takeHidden(nn::FuncOp program, nn::CallOp before,
                                nn::CallOp call) {
  llvm::SetVector<Value> needed = valuesOfOthers(call);
  if (needed.empty())
    return success();
  Value given = before ? Value(before.getResult(0)) : Value();
  if (needed.size() > 1 || needed[0] != given) {
    InFlightDiagnostic error = call.emitError(
        "H0153: the layer cannot be calibrated: it reads more than the hidden "
        "states of the layer before it");
    error.attachNote() << "help: leave out --calibration";
    return error;
  }
  Block &body = program.getBody().front();
  given.replaceAllUsesWith(body.addArgument(given.getType(), given.getLoc()));
  SmallVector<Attribute> inputs(program.getInputsAttr().getValue());
  inputs.push_back(
      nn::PortAttr::get(program.getContext(), PortRole::Hidden,
                        StringAttr::get(program.getContext(), "before")));
  program.setInputsAttr(ArrayAttr::get(program.getContext(), inputs));
  return success();
}

/// Erases arguments that nothing uses, with the ports that describe them as
/// inputs of the program.
static void eraseUnusedInputs(nn::FuncOp program) {
  Block &body = program.getBody().front();
  SmallVector<Attribute> left;
  BitVector unused(body.getNumArguments());
  for (auto [argument, port] :
       llvm::zip(body.getArguments(), program.getInputsAttr()))
    if (argument.use_empty())
      unused.set(argument.getArgNumber());
    else
      left.push_back(port);
  body.eraseArguments(unused);
  program.setInputsAttr(ArrayAttr::get(program.getContext(), left));
}

/// Adds a program that runs only call number `number` of `eval`, which is a
/// call of a layer. `rewrite` gets a copy of the call. The program returns the
/// values that `rewrite` returns.
LogicalResult Splitter::add(const Twine &name, size_t number, Rewrite rewrite,
                            ArrayRef<Attribute> outputs) {
  auto program = cast<nn::FuncOp>(eval->clone());
  program.setSymName(name.str());
  symbols.insert(program);
  programs.insert(program);
  Block &body = program.getBody().front();
  SmallVector<nn::CallOp> copies(body.getOps<nn::CallOp>());
  nn::CallOp before = number > 0 ? copies[number - 1] : nn::CallOp();
  SmallVector<Value> results = rewrite(copies[number]);
  if (failed(
          takeHidden(program, before, results[0].getDefiningOp<nn::CallOp>())))
    return failure();
  body.getTerminator()->setOperands(results);
  eraseUnused(body);
  eraseUnusedInputs(program);
  program.setProgram(nn::ProgramKind::Encode);
  program.setOutputsAttr(ArrayAttr::get(program.getContext(), outputs));
  giveResults(program, results);
  return success();
}

LogicalResult Splitter::addLayer(size_t number) {
  auto port = nn::PortAttr::get(model.getContext(), PortRole::Hidden);
  return add(
      "layer." + Twine(number), number,
      [](nn::CallOp call) { return SmallVector<Value>{call.getResult(0)}; },
      {port});
}

/// Adds the calibration program that returns the second moments of the inputs
/// of one group of a layer's products. Does nothing if no weight of the group
/// is a parameter.
LogicalResult Splitter::addStage(size_t number, size_t &stage,
                                 const Moments &moments) {
  nn::CallOp call = calls[number];
  SmallVector<unsigned> results;
  SmallVector<Attribute> outputs;
  for (auto [index, argument] : llvm::enumerate(moments.weights))
    if (auto get = call.getOperand(argument).getDefiningOp<nn::GetOp>()) {
      results.push_back(index);
      outputs.push_back(nn::PortAttr::get(
          model.getContext(), PortRole::Value,
          StringAttr::get(model.getContext(), "value." + get.getState())));
    }
  if (results.empty())
    return success();
  auto rewrite = [&](nn::CallOp copied) {
    OpBuilder builder(copied);
    nn::FuncOp callee = moments.function;
    auto other = builder.create<nn::CallOp>(
        copied.getLoc(), callee, copied.getOperands(), copied.getPathAttr());
    return llvm::map_to_vector(results, [&](unsigned index) -> Value {
      return other.getResult(index);
    });
  };
  return add("inputs." + Twine(number) + "." + Twine(stage++), number, rewrite,
             outputs);
}

LogicalResult Splitter::addInputs(size_t number) {
  auto layer = symbols.lookup<nn::FuncOp>(calls[number].getCallee());
  size_t stage = 0;
  for (const Moments &moments : momentsIn(layer))
    if (failed(addStage(number, stage, moments)))
      return failure();
  return success();
}

/// Erases all functions that `roots` do not call, directly or indirectly.
void Splitter::keepOnly(const llvm::SmallDenseSet<Operation *> &roots) {
  llvm::SmallDenseSet<Operation *> reached(roots);
  SmallVector<Operation *> open(roots.begin(), roots.end());
  while (!open.empty())
    open.pop_back_val()->walk([&](nn::CallOp call) {
      Operation *callee = symbols.lookup(call.getCallee());
      if (reached.insert(callee).second)
        open.push_back(callee);
    });
  for (auto function : llvm::make_early_inc_range(model.getOps<nn::FuncOp>()))
    if (!reached.contains(function))
      function.erase();
}

LogicalResult Splitter::run() {
  llvm::append_range(calls, eval.getBody().getOps<nn::CallOp>());
  for (size_t number = 0; number < calls.size(); ++number)
    if (failed(addLayer(number)) || failed(addInputs(number)))
      return failure();
  programs.insert(eval);
  keepOnly(programs);
  for (auto state : model.getOps<nn::StateOp>())
    state.setTrainable(false);
  return success();
}
