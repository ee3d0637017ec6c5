//===- SplitParameters.cpp - Tensor parallelism ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// Chooses how the mesh axis `tensor` splits parameters (Shoeybi et al., arXiv
// 1909.08053). Two products form a pair: the first is split by columns, the
// second by rows, and one all-reduce follows the pair. The vocabulary is split
// by rows.
//
//===----------------------------------------------------------------------===//

#include "Reasons.h"
#include "Splits.h"
#include "heddle/Transforms/Shard/Passes.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;
using dist::TensorShardingAttr;

namespace heddle {
#define GEN_PASS_DEF_SHARDSPLITPARAMETERS
#include "include/heddle/Transforms/Shard/Passes.h.inc"
} // namespace heddle

namespace {

/// A dimension of a value.
using Dim = std::pair<Value, int64_t>;

/// Returns the dimensions that must be split if dimension `dim` of the operand
/// `use` is split. The first one is a dimension of the operation's first
/// result. Dimensions of operands that the operation overwrites, such as a
/// key-value cache, follow. Returns nothing if the operation needs the whole
/// dimension, or if an overwritten cache has heads that `ranks` ranks cannot
/// divide evenly.
SmallVector<Dim> dimsAfter(OpOperand &use, int64_t dim, int64_t ranks) {
  auto ruled = dyn_cast<nn::ShardingRuleOpInterface>(use.getOwner());
  if (!ruled)
    return {};
  dist::ShardingRule rule = ruled.getShardingRule();
  unsigned number = use.getOperandNumber();
  if (number >= rule.operands.size() || rule.results.empty() ||
      dim >= int64_t(rule.operands[number].size()))
    return {};
  int64_t factor = rule.operands[number][dim];
  if (rule.factors[factor].kind != dist::FactorKind::Parallel)
    return {};
  SmallVector<Dim> found;
  auto add = [&](Value value, ArrayRef<int64_t> dims) {
    if (const auto *at = llvm::find(dims, factor); at != dims.end())
      found.push_back({value, at - dims.begin()});
  };
  add(use.getOwner()->getResult(0), rule.results[0]);
  if (found.empty())
    return {};
  auto named = dyn_cast<nn::PropertiesOpInterface>(use.getOwner());
  for (const nn::Tie &tie : named ? named.getTies() : SmallVector<nn::Tie>())
    if (tie.worth == nn::Tie::Worth::Always)
      for (OpOperand &operand : use.getOwner()->getOpOperands())
        if (operand.get() == tie.operand)
          add(tie.operand, rule.operands[operand.getOperandNumber()]);
  if (found.size() > 1 && !dist::canSplit(rule.factors[factor], ranks))
    return {};
  return found;
}

struct SplitParameters
    : heddle::impl::ShardSplitParametersBase<SplitParameters> {
  using Base::Base;

  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    FailureOr<dist::MeshOp> mesh = shard::meshOf(model);
    if (failed(mesh))
      return signalPassFailure();
    tensorAxes = mesh->getAxesOf(dist::AxisRole::Tensor);
    tensorRanks = mesh->getSize(dist::AxisRole::Tensor);
    if (!tensorAxes.empty())
      split(model, *mesh);
    if (printReasons)
      noteParameters(model);
    choices.clear();
    blocker = nullptr;
    whys.clear();
    rules.clear();
    decided.clear();
    if (printReasons)
      reasons.print(llvm::errs());
  }

private:
  void split(nn::ModelOp model, dist::MeshOp mesh) {
    symbols.emplace(model);
    // Functions are visited in the order in which steps call them. Then the
    // forward pass chooses the split of a weight before the backward pass,
    // which uses the same weight, is visited.
    llvm::SetVector<nn::FuncOp> called;
    for (auto step : model.getOps<nn::StepOp>())
      step.walk([&](nn::CallOp call) {
        called.insert(symbols->lookup<nn::FuncOp>(call.getCallee()));
      });
    for (nn::FuncOp function : called)
      function.walk([&](nn::LinearOp linear) { choose(linear); });
    if (choices.empty())
      warn(model, mesh);
    // If the model is trained, only the training step decides how embedding
    // tables are split. The other programs use the tables with the same split.
    auto trains = [](nn::StepOp step) {
      return step.getKind() == nn::ProgramKind::Train;
    };
    bool anyTrains = llvm::any_of(model.getOps<nn::StepOp>(), trains);
    for (auto step : model.getOps<nn::StepOp>())
      if (!anyTrains || trains(step))
        step.walk([&](Operation *op) { splitVocabulary(model, op); });
    for (auto step : model.getOps<nn::StepOp>())
      step.walk([&](nn::CallOp call) { splitArguments(model, call); });
    for (auto step : model.getOps<nn::StepOp>())
      step.walk([&](nn::CallOp call) { noteArguments(model, call); });
    splitCompanions(model);
    model.walk([&](nn::LinearOp linear) { moveBias(linear); });
  }

  /// Reports how each parameter is split, and why.
  void noteParameters(nn::ModelOp model) {
    for (auto state : model.getOps<nn::StateOp>()) {
      if (state.getRole() != nn::StateRole::Parameter)
        continue;
      std::string reason = rules.lookup(state);
      if (reason.empty())
        reason = state.getStorage() ? "as the module says"
                                    : "in no pair of products";
      reasons.add(state.getSymName(), shard::storageOf(state),
                  reason + " (shard-split-parameters)");
    }
  }

  /// The last component of the module path in the product's location.
  static StringRef shortName(nn::LinearOp linear) {
    auto path = linear->getLoc()->findInstanceOf<NameLoc>();
    return path ? path.getName().getValue().rsplit('.').second
                : linear->getName().getStringRef();
  }

  /// The dimension of a product's weight along which the weight is split: the
  /// dimension of output features if it is split by columns, otherwise that of
  /// input features.
  static int64_t dimOf(nn::LinearOp linear, bool columns) {
    return columns != linear.getTransposed() ? 1 : 0;
  }

  /// Warns that the mesh has an axis `tensor` with several ranks, but that no
  /// layer is split over it.
  void warn(nn::ModelOp model, dist::MeshOp mesh) {
    auto warning = model.emitWarning("the axis ")
                   << cast<StringAttr>(tensorAxes.front()).getValue() << "="
                   << mesh.getSize(dist::AxisRole::Tensor)
                   << " splits no layer, its ranks all compute the same: there "
                      "are no two products with only element-wise operations "
                      "or attention between them";
    if (blocker)
      warning << "; " << shard::nameOf(blocker)
              << " follows a product and needs all its features";
  }

  /// The products that end a pair. A pair is a matrix product whose weight is
  /// split by columns, and the products that read its result, whose weights are
  /// split by rows. `overwritten` are arguments of the layer, such as a cache,
  /// that operations within the pair overwrite.
  struct PairEnd {
    llvm::SetVector<nn::LinearOp> products;
    SmallVector<Dim> overwritten;
  };

  /// Whether every use of the value leads to a product that sums over the
  /// dimension `from`. If `from` is split, the weights of these products can be
  /// split by rows. Adds the products to `end`.
  bool endsInProducts(Dim from, PairEnd &end) {
    auto [value, dim] = from;
    bool isLast = dim + 1 == cast<RankedTensorType>(value.getType()).getRank();
    bool any = false;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<nn::ReturnOp>(user))
        continue;
      any = true;
      if (auto next = dyn_cast<nn::LinearOp>(user)) {
        if (use.getOperandNumber() != 0 || !isLast)
          return false;
        end.products.insert(next);
        continue;
      }
      // nn.reorder needs the whole dimension. The value is gathered before the
      // nn.reorder, and each rank takes its shard of the output. So the
      // products of the pair may also read this output.
      if (auto reorder = dyn_cast<nn::ReorderOp>(user); reorder && isLast) {
        if (!endsInProducts({reorder.getOutput(), dim}, end))
          return false;
        continue;
      }
      SmallVector<Dim> next = dimsAfter(use, dim, tensorRanks);
      if (next.empty()) {
        blocker = blocker ? blocker : user;
        return false;
      }
      if (!endsInProducts(next.front(), end))
        return false;
      for (const Dim &other : llvm::drop_begin(next))
        if (isa<BlockArgument>(other.first))
          end.overwritten.push_back(other);
    }
    return any;
  }

  /// Makes a pair of the matrix product `linear`, whose weight is split by
  /// columns, and the products that read its result, whose weights are split by
  /// rows. All these weights must be arguments of the layer.
  void choose(nn::LinearOp linear) {
    auto weight = dyn_cast<BlockArgument>(linear.getWeight());
    if (!weight || choices.contains(weight))
      return;
    PairEnd end;
    int64_t features =
        cast<RankedTensorType>(linear.getOutput().getType()).getRank() - 1;
    if (!endsInProducts({linear.getOutput(), features}, end))
      return;
    for (nn::LinearOp next : end.products) {
      auto choice = choices.find(next.getWeight());
      bool fits = choice == choices.end() ||
                  choice->second == dimOf(next, /*columns=*/false);
      if (!isa<BlockArgument>(next.getWeight()) || !fits)
        return;
    }
    std::string pair = "the pair " + shortName(linear).str();
    for (nn::LinearOp next : end.products)
      pair += "|" + shortName(next).str();
    choose(weight, dimOf(linear, /*columns=*/true), "columns of " + pair);
    if (auto bias = dyn_cast_or_null<BlockArgument>(linear.getBias()))
      choose(bias, 0, "columns of " + pair);
    for (auto [argument, dim] : end.overwritten)
      choose(argument, dim, "what " + pair + " writes");
    for (nn::LinearOp next : end.products)
      choose(next.getWeight(), dimOf(next, /*columns=*/false),
             "rows of " + pair);
  }

  void choose(Value argument, int64_t dim, const std::string &why) {
    choices[argument] = dim;
    if (printReasons)
      whys[argument] = why;
  }

  void setStorage(nn::StateOp state, int64_t dim, const std::string &why) {
    if (printReasons)
      rules[state] = why;
    Builder builder(&getContext());
    SmallVector<Attribute> dims(state.getTensorType().getRank(),
                                builder.getArrayAttr({}));
    dims[dim] = builder.getArrayAttr(tensorAxes);
    state.setStorageAttr(TensorShardingAttr::get(
        &getContext(), builder.getArrayAttr(dims), builder.getArrayAttr({})));
  }

  /// The parameter from which the value is read, either directly or through a
  /// copy. Null if the value is not read from a state.
  nn::StateOp parameterOf(nn::ModelOp model, Value value) {
    auto get = value ? value.getDefiningOp<nn::GetOp>() : nn::GetOp();
    auto state =
        get ? symbols->lookup<nn::StateOp>(get.getState()) : nn::StateOp();
    if (state && state.getParameter())
      state = symbols->lookup<nn::StateOp>(*state.getParameter());
    return state;
  }

  /// Whether the state is already split in dimension `dim`. False if `state` is
  /// null.
  static bool isSplit(nn::StateOp state, int64_t dim) {
    return state && state.getStorage() &&
           !cast<ArrayAttr>(state.getStorage()->getDims()[dim]).empty();
  }

  /// Whether the product computes logits: the loss reads them, or a step
  /// returns them.
  static bool isHead(nn::LinearOp linear) {
    return llvm::any_of(linear.getOutput().getUsers(), [](Operation *user) {
      return isa<nn::CrossEntropyOp>(user) ||
             (isa<nn::ReturnOp>(user) && isa<nn::StepOp>(user->getParentOp()));
    });
  }

  /// Splits the table of token embeddings, and the weight and bias of the
  /// output head (the product that computes logits), by rows of the vocabulary.
  void splitVocabulary(nn::ModelOp model, Operation *op) {
    Value table;
    int64_t rows = 0;
    if (auto embedding = dyn_cast<nn::EmbeddingOp>(op)) {
      if (shard::splitsTable(embedding.getShardingRule(), embedding.getIds(),
                             tensorRanks))
        table = embedding.getTable();
    } else if (auto linear = dyn_cast<nn::LinearOp>(op)) {
      rows = dimOf(linear, /*columns=*/true);
      // The embedding table may also be the weight of a product that is not the
      // output head. The bias of this product is then split like the table.
      if (isHead(linear) ||
          isSplit(parameterOf(model, linear.getWeight()), rows)) {
        table = linear.getWeight();
        if (nn::StateOp bias = parameterOf(model, linear.getBias()))
          setStorage(bias, 0, "rows of the vocabulary");
      }
    }
    if (!table)
      return;
    if (nn::StateOp state = parameterOf(model, table))
      setStorage(state, rows, "rows of the vocabulary");
  }

  void splitArguments(nn::ModelOp model, nn::CallOp call) {
    auto callee = symbols->lookup<nn::FuncOp>(call.getCallee());
    for (auto [argument, operand] :
         llvm::zip(callee.getArguments(), call.getOperands()))
      if (auto choice = choices.find(argument); choice != choices.end())
        if (nn::StateOp state = parameterOf(model, operand);
            state && decided.insert(state).second)
          setStorage(state, choice->second, whys.lookup(argument));
  }

  /// Records, for each argument of the called function that is a parameter, how
  /// the parameter is split. `choose`, which looks for pairs of products,
  /// misses some of these arguments, for example in a function that recomputes
  /// a part of the forward pass.
  void noteArguments(nn::ModelOp model, nn::CallOp call) {
    auto callee = symbols->lookup<nn::FuncOp>(call.getCallee());
    for (auto [argument, operand] :
         llvm::zip(callee.getArguments(), call.getOperands())) {
      nn::StateOp state = parameterOf(model, operand);
      if (!state || !state.getStorage())
        continue;
      auto dims = state.getStorage()->getDims().getAsRange<ArrayAttr>();
      for (auto [dim, axes] : llvm::enumerate(dims))
        if (!axes.empty())
          choices[argument] = static_cast<int64_t>(dim);
    }
  }

  /// Splits the states that belong to a parameter (its gradient, moments and
  /// copies) like the parameter.
  void splitCompanions(nn::ModelOp model) {
    for (auto state : model.getOps<nn::StateOp>()) {
      if (!state.getParameter())
        continue;
      auto parameter = symbols->lookup<nn::StateOp>(*state.getParameter());
      state.setStorageAttr(parameter.getStorageAttr());
      state.setSegmentsAttr(parameter.getSegmentsAttr());
      numSplit += parameter.getStorage().has_value();
    }
  }

  /// Removes the bias from a product that is split by rows, and adds the bias
  /// to the reduced sum instead. Otherwise every rank would add the bias to its
  /// partial sum, so it would count several times.
  void moveBias(nn::LinearOp linear) {
    auto choice = choices.find(linear.getWeight());
    if (!linear.getBias() || choice == choices.end() ||
        choice->second != dimOf(linear, /*columns=*/false))
      return;
    OpBuilder builder(linear);
    builder.setInsertionPointAfter(linear);
    auto add = builder.create<nn::AddBiasOp>(
        linear.getLoc(), linear.getOutput().getType(), linear.getOutput(),
        linear.getBias(), ArrayAttr());
    linear.getOutput().replaceAllUsesExcept(add.getOutput(), add);
    linear.getBiasMutable().clear();
  }

  std::optional<SymbolTable> symbols; ///< The model's symbols.
  /// For each function argument that is split, the dimension that is split.
  DenseMap<Value, int64_t> choices;
  /// For each argument in `choices`, the reason why it is split.
  DenseMap<Value, std::string> whys;
  /// For each state that is split, the reason why it is split.
  DenseMap<Operation *, std::string> rules;
  /// The states whose split follows from a pair of matrix products.
  llvm::DenseSet<Operation *> decided;
  Operation *blocker = nullptr; ///< The first operation that prevented a pair.
  SmallVector<Attribute> tensorAxes; ///< The axes with the role Tensor.
  int64_t tensorRanks = 1; ///< The number of ranks along `tensorAxes`.
  shard::Reasons reasons;
};

} // namespace
