//===- QuantizeWeights.cpp - Weights that are quantized in training -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `train-quantize-weights`: see Passes.td.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/Wire.h"
#include "dialects/NN/NNDialect.h"
#include "heddle/Settings/WeightQuantization.h"
#include "heddle/Transforms/Common/States.h"
#include "heddle/Transforms/Train/Passes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
#define GEN_PASS_DEF_TRAINQUANTIZEWEIGHTS
#include "include/heddle/Transforms/Train/Passes.h.inc"
} // namespace heddle

namespace {

/// How the model reads a weight.
enum class WeightUse { None, InputsFirst, OutputsFirst, Embedding };

struct QuantizeWeights
    : heddle::impl::TrainQuantizeWeightsBase<QuantizeWeights> {
  void runOnOperation() override {
    model = getOperation();
    const dist::Strategy &strategy = model.getStrategy().getValue();
    groups = config::quantizedGroupsOf(strategy);
    if (groups.empty() || strategy.mode != config::Mode::Train)
      return;
    symbols.emplace(model);
    findUses();
    std::vector<nn::StateOp> weights;
    for (auto state : model.getOps<nn::StateOp>())
      if (state.getRole() == nn::StateRole::Parameter &&
          uses.lookup(state.getSymName()) != WeightUse::None)
        weights.push_back(state);
    if (failed(verifyPatterns(weights)))
      return signalPassFailure();
    for (nn::StateOp weight : weights) {
      FailureOr<const config::QuantizedGroup *> group = groupOf(weight);
      if (failed(group) || (*group && weight.getTrainable() &&
                            failed(quantize(weight, (*group)->name, strategy))))
        return signalPassFailure();
    }
  }

private:
  /// Finds how nn.linear and nn.embedding read weights, in functions or the
  /// layers that these call.
  void findUses() {
    model.walk([&](nn::GetOp get) {
      auto state = symbols->lookup<nn::StateOp>(get.getState());
      if (!state)
        return;
      StringRef parameter =
          state.isCopy() ? *state.getParameter() : state.getSymName();
      WeightUse &use = uses[parameter];
      // A table that is tied to the head is an embedding.
      if (WeightUse other = useOf(get.getValue());
          use == WeightUse::None || other == WeightUse::Embedding)
        use = other;
    });
  }

  WeightUse useOf(Value value) {
    for (OpOperand &operand : value.getUses()) {
      Operation *user = operand.getOwner();
      if (auto linear = dyn_cast<nn::LinearOp>(user);
          linear && linear.getWeight() == value)
        return linear.getTransposed() ? WeightUse::OutputsFirst
                                      : WeightUse::InputsFirst;
      if (auto embedding = dyn_cast<nn::EmbeddingOp>(user);
          embedding && embedding.getTable() == value)
        return WeightUse::Embedding;
      if (auto call = dyn_cast<nn::CallOp>(user)) {
        auto callee = symbols->lookup<nn::FuncOp>(call.getCallee());
        WeightUse use = useOf(callee.getArgument(operand.getOperandNumber()));
        if (use != WeightUse::None)
          return use;
      }
    }
    return WeightUse::None;
  }

  /// Whether `takes` is true for the path of the weight's module, in the model
  /// or in the weight files.
  static bool isOfModule(nn::StateOp weight,
                         function_ref<bool(const std::string &)> takes) {
    return isNamed(weight, [&](StringRef name) {
      name.consume_back(".weight");
      return takes(name.str());
    });
  }

  LogicalResult verifyPatterns(ArrayRef<nn::StateOp> weights) {
    for (const config::QuantizedGroup &group : groups)
      for (const std::string &pattern : group.modules) {
        bool isUsed = llvm::any_of(weights, [&](nn::StateOp weight) {
          return isOfModule(weight, [&](const std::string &module) {
            return config::takesModule(pattern, module);
          });
        });
        if (isUsed)
          continue;
        InFlightDiagnostic error = model.emitError("H0142: the pattern \"")
                                   << pattern << "\" of the group \""
                                   << group.name
                                   << "\" of --moq matches no weight of a "
                                      "linear layer or an embedding";
        if (!weights.empty())
          error.attachNote()
              << "help: take a part of a path such as "
              << nn::StateOp(weights.front()).getSymName().rsplit('.').first;
        return error;
      }
    return success();
  }

  /// The group that takes the weight; null if none does.
  FailureOr<const config::QuantizedGroup *> groupOf(nn::StateOp weight) {
    const config::QuantizedGroup *found = nullptr;
    for (const config::QuantizedGroup &group : groups) {
      if (!isOfModule(weight, [&](const std::string &module) {
            return group.takes(module);
          }))
        continue;
      if (found) {
        InFlightDiagnostic error = model.emitError("H0100: the groups \"")
                                   << found->name << "\" and \"" << group.name
                                   << "\" of --moq both take "
                                   << weight.getSymName();
        error.attachNote() << "help: give one of them patterns that do not "
                              "match "
                           << weight.getSymName().rsplit('.').first;
        return error;
      }
      found = &group;
    }
    return found;
  }

  /// Whether the weight's order of elements in the files is that of one tensor,
  /// which may be transposed.
  static bool isOneTensor(nn::StateOp weight) {
    nn::SourceAttr source = weight.getSourceAttr();
    while (source && source.getKind() == weights::Source::Kind::Permute)
      source = source.getParts().front();
    return !source || source.getKind() == weights::Source::Kind::Tensor;
  }

  LogicalResult quantize(nn::StateOp weight, StringRef group,
                         const dist::Strategy &strategy) {
    int64_t elements = elementsOf(weight.getType());
    WeightUse use = uses.lookup(weight.getSymName());
    int64_t count = strategy.moqInForward && use == WeightUse::Embedding
                        ? weight.getTensorType().getDimSize(0)
                        : strategy.moqGroups;
    auto fail = [&](const Twine &why, const Twine &help) -> LogicalResult {
      InFlightDiagnostic error = model.emitError("H0100: ");
      error << why.str();
      error.attachNote() << "help: " << help.str();
      return error;
    };
    if (elements % count != 0)
      return fail("--moq-groups " + Twine(count) + " does not divide the " +
                      Twine(elements) + " elements of " + weight.getSymName(),
                  "give --moq-groups a divisor, or give no group of --moq a "
                  "pattern that matches it");
    if (count > 1 && !isOneTensor(weight))
      return fail("the rows of " + weight.getSymName() +
                      " are in another order in the model than in the files, "
                      "so it has no " +
                      Twine(count) + " groups",
                  "use --moq-groups 1");
    if (count > 1 && strategy.tensor > 1 && weight.getSegments())
      return fail("tensor ranks split parts of " + weight.getSymName() +
                      " that are side by side, so it has no " + Twine(count) +
                      " groups",
                  "use --moq-groups 1, or no axis tensor");
    nn::StateOp copy = copyOf(weight, strategy);
    copy.setQuantizerAttr(nn::QuantizerAttr::get(
        &getContext(), StringAttr::get(&getContext(), group), count,
        use == WeightUse::InputsFirst,
        strategy.moqType == config::MoqType::Asymmetric));
    ++numWeights;
    return success();
  }

  /// The weight's copy in compute precision, which functions read. Adds one if
  /// there is none.
  nn::StateOp copyOf(nn::StateOp weight, const dist::Strategy &strategy) {
    std::string name =
        (weight.getSymName() + "." + wordOf(strategy.precision)).str();
    if (auto known = symbols->lookup<nn::StateOp>(name))
      return known;
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(weight);
    auto copy = cast<nn::StateOp>(builder.clone(*weight));
    copy.setSymName(name);
    copy.setRole(nn::StateRole::Derived);
    copy.setParameterAttr(weight.getSymNameAttr());
    copy.setCheckpointed(false);
    copy.removeInitAttr();
    copy.removeSourceAttr();
    model.walk([&](nn::GetOp get) {
      if (get.getState() == weight.getSymName())
        get.setState(name);
    });
    return copy;
  }

  nn::ModelOp model;
  std::vector<config::QuantizedGroup> groups;
  std::optional<SymbolTable> symbols;
  llvm::StringMap<WeightUse> uses; ///< By the name of the parameter.
};

} // namespace
