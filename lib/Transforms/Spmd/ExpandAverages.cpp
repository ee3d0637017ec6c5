//===- ExpandAverages.cpp - What replicas send of an average --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-expand-averages`: see Passes.td. With the wire
// format `sign1` replicas send signs and scales, and keep what is lost as
// errors, which they add to what they send next (Tang et al., arXiv 2102.02888,
// algorithm 1).
//
//===----------------------------------------------------------------------===//

#include "OwnStates.h"
#include "dialects/NN/BucketMembers.h"
#include "dialects/NN/Scalars.h"
#include "dialects/NN/SignLayout.h"
#include "heddle/PlanFormat/ErrorFeedback.h"
#include "heddle/Transforms/Shard/Shardings.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;

namespace heddle {
#define GEN_PASS_DEF_SPMDEXPANDAVERAGES
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// Expands one average of a rank's program to the exchange of signs. With
/// several that have one scale together, their functions are called in turns.
class SignExchange {
public:
  SignExchange(nn::AverageOp average, dist::MeshOp mesh)
      : builder(average), average(average), loc(average.getLoc()),
        axes(replicaAxes(mesh)), ranks(mesh.getSize(axes)),
        layout(nn::elementsOfMembers(average), ranks),
        owners(ownersOf(nn::bucketOf(average), mesh)),
        copies(mesh.getSize(owners)) {}

  /// Lets operations be created before `place`, and computes the operands of
  /// the average before it.
  void moveBefore(Operation *place);

  /// What the rank sends before it is compressed: what the body computes of the
  /// rank's gradient, and the error of earlier steps.
  Value begin();
  /// The scale of each tensor of `x`, or of each chunk.
  Value scalesOf(Value x, bool isChunked);
  /// The sum of squares of `x`, of which these are the scales, and the number
  /// of its elements.
  std::pair<Value, Value> squaresOf(Value scales, bool isChunked);
  /// Gives each replica the scales of all.
  Value gathered(Value scale);
  /// Sends chunk r of `x` to replica r. Returns the mean of the chunks that the
  /// rank receives, with the error of earlier steps. `received` are the scales
  /// of all replicas.
  Value send(Value x, Value scale, Value received);
  /// Sends the means `y` to all replicas. Returns what the average is.
  Value finish(Value y, Value scale, Value received);

private:
  int64_t tensors() { return static_cast<int64_t>(layout.tensors.size()); }
  RankedTensorType words(int64_t senders, int64_t chunks) {
    return RankedTensorType::get({senders, chunks, layout.words()},
                                 builder.getI32Type());
  }
  RankedTensorType scales(int64_t senders) {
    return RankedTensorType::get({senders, tensors()}, builder.getF32Type());
  }

  /// Reads the errors `what`, `elements` of each rank. The first train program
  /// that has them adds the state.
  Value readErrors(StringRef what, int64_t elements);
  void setErrors(StringRef what, Value value) {
    builder.create<nn::SetOp>(loc, nameOf(what), value);
  }
  std::string nameOf(StringRef what) {
    return nameOfOwn((what + average.getBucket()->split('.').second).str(),
                     average->getParentOfType<nn::ModelOp>());
  }
  /// The errors, or zeros if they are of what an earlier phase has sent.
  Value kept(Value errors);
  /// Gives each element the factor of its tensor.
  Value spread(Value factors);
  nn::PackSignsOp pack(Value x, Value scale, bool isChunked);
  Value gather(Value value, RankedTensorType type) {
    return builder.create<dist::AllGatherOp>(
        loc, type, value, builder.getArrayAttr(axes),
        builder.getI64IntegerAttr(0), reason(), TypeAttr(), DenseI64ArrayAttr(),
        UnitAttr());
  }
  DenseI64ArrayAttr counts() {
    return builder.getDenseI64ArrayAttr(layout.counts());
  }
  IntegerAttr parts() { return builder.getI64IntegerAttr(ranks); }
  StringAttr reason() { return builder.getStringAttr("nn.average"); }
  /// The index of the chunks that this rank averages.
  Value first(bool isChunked) {
    return isChunked ? builder
                           .create<dist::RankOp>(loc, builder.getIndexType(),
                                                 builder.getArrayAttr(axes))
                           .getResult()
                     : Value();
  }
  UnitAttr flag(bool value) {
    return value ? builder.getUnitAttr() : UnitAttr();
  }

  OpBuilder builder;
  nn::AverageOp average;
  Location loc;
  SmallVector<Attribute> axes; ///< The axes along which ranks are replicas.
  int64_t ranks;               ///< The number of replicas.
  nn::SignLayout layout;
  /// The axes along which each rank has errors of its own, and their size.
  SmallVector<Attribute> owners;
  int64_t copies;
};

} // namespace

/// Moves the operations that compute the operands of `op`, and are after
/// `place`, before `place`.
static void moveOperandsBefore(Operation *op, Operation *place) {
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp();
        maker && place->isBeforeInBlock(maker)) {
      moveOperandsBefore(maker, place);
      maker->moveBefore(place);
    }
}

void SignExchange::moveBefore(Operation *place) {
  builder.setInsertionPoint(place);
  moveOperandsBefore(average, place);
}

Value SignExchange::readErrors(StringRef what, int64_t elements) {
  auto model = average->getParentOfType<nn::ModelOp>();
  std::string name = nameOf(what);
  auto type = RankedTensorType::get({elements}, builder.getF32Type());
  if (!model.lookupSymbol(name)) {
    OpBuilder before(nn::bucketOf(average));
    addOwnState(before, loc, name, type, owners, copies);
  }
  return builder.create<nn::GetOp>(loc, type, name);
}

Value SignExchange::kept(Value errors) {
  if (!average.getKeep())
    return errors;
  auto update = builder.create<nn::UpdateOp>(
      loc, errors.getType(), "kept_errors", errors, errors, ValueRange(),
      ValueRange(average.getKeep()), Value(), nullptr);
  Block &block = update.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  Value error = block.addArgument(s.getF64Type(), loc);
  block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(s.mul(error, block.addArgument(s.getF64Type(), loc)));
  return update.getOutputs()[0];
}

Value SignExchange::spread(Value factors) {
  Value ones = nn::buildMap(
      builder, loc, average.getState(),
      [](nn::Scalars &s, ValueRange) -> Value { return s.real(1); });
  SmallVector<int64_t> slots = llvm::map_to_vector(
      layout.tensors, [](const auto &tensor) { return tensor.slot; });
  return builder.create<nn::ScaleSegmentsOp>(
      loc, ones.getType(), ones, factors, Value(), FlatSymbolRefAttr(),
      builder.getDenseI64ArrayAttr(slots), ArrayAttr());
}

/// The operands that the average's body reads beside the gradient.
static SmallVector<Value> inputsOf(nn::AverageOp average) {
  SmallVector<Value> inputs;
  for (BlockArgument argument : average.getBody().getArguments())
    if (argument.getArgNumber() != 1 && !argument.use_empty())
      inputs.push_back(average.getOperand(argument.getArgNumber()));
  return inputs;
}

/// Computes the average's body from an element of the gradient, and of
/// `inputsOf`.
static Value contribution(nn::Scalars &s, nn::AverageOp average, Value gradient,
                          ValueRange inputs) {
  Block &body = average.getBody().front();
  IRMapping mapping;
  mapping.map(body.getArgument(1), gradient);
  for (BlockArgument argument : body.getArguments())
    if (argument.getArgNumber() != 1 && !argument.use_empty()) {
      mapping.map(argument, inputs.front());
      inputs = inputs.drop_front();
    }
  for (Operation &op : body.without_terminator())
    s.clone(op, mapping);
  return mapping.lookup(body.getTerminator()->getOperand(0));
}

/// Creates an update of `state` by `gradient` if the average's condition holds.
/// `function` computes the new element from one of the state, of the gradient
/// and of each input.
static Value updated(OpBuilder &builder, nn::AverageOp average, StringRef name,
                     Value state, ValueRange inputs,
                     function_ref<Value(nn::Scalars &, ValueRange)> function) {
  Location loc = average.getLoc();
  auto update = builder.create<nn::UpdateOp>(
      loc, state.getType(), name, state, average.getGradient(), ValueRange(),
      inputs, average.getCondition(), nullptr);
  Block &block = update.getBody().emplaceBlock();
  nn::Scalars s(loc, builder.getContext());
  s.setInsertionPointToEnd(&block);
  for (size_t i = 0; i < 2 + inputs.size(); ++i)
    block.addArgument(s.getF64Type(), loc);
  s.create<nn::ReturnOp>(function(s, block.getArguments()));
  return update.getOutputs()[0];
}

Value SignExchange::begin() {
  int64_t elements =
      cast<RankedTensorType>(average.getOutput().getType()).getNumElements();
  SmallVector<Value> inputs = inputsOf(average);
  size_t count = inputs.size();
  if (average.getKeep())
    inputs.push_back(average.getKeep());
  if (average.getFactors())
    inputs.push_back(spread(average.getFactors()));
  return updated(builder, average, "error_feedback",
                 readErrors(plan::workerError, elements), inputs,
                 [&](nn::Scalars &s, ValueRange x) -> Value {
                   Value before = x[0];
                   Value own = s.mul(x[1], s.real(static_cast<double>(ranks)));
                   x = x.drop_front(2);
                   Value sent =
                       contribution(s, average, own, x.take_front(count));
                   if (average.getKeep())
                     before = s.mul(before, x[count]);
                   if (average.getFactors())
                     sent = s.mul(sent, x.back());
                   return s.add(before, sent);
                 });
}

Value SignExchange::scalesOf(Value x, bool isChunked) {
  return builder.create<nn::SignScalesOp>(
      loc, scales(1), x, average.getCondition(), first(isChunked),
      flag(isChunked), FlatSymbolRefAttr(), counts(), parts(), ArrayAttr());
}

std::pair<Value, Value> SignExchange::squaresOf(Value scales, bool isChunked) {
  auto type = RankedTensorType::get({1, 1}, builder.getF32Type());
  auto joined = builder.create<nn::JoinScalesOp>(
      loc, type, type, scales, first(isChunked), flag(isChunked), counts(),
      parts(), ArrayAttr());
  return {joined.getSquares(), joined.getElements()};
}

Value SignExchange::gathered(Value scale) {
  auto type = cast<RankedTensorType>(scale.getType());
  return gather(scale, type.clone({ranks, type.getDimSize(1)}));
}

nn::PackSignsOp SignExchange::pack(Value x, Value scale, bool isChunked) {
  return builder.create<nn::PackSignsOp>(
      loc, words(1, isChunked ? 1 : ranks), x.getType(), x, scale,
      first(isChunked), flag(isChunked), counts(), parts(), ArrayAttr());
}

Value SignExchange::send(Value x, Value scale, Value received) {
  auto packed = pack(x, scale, /*isChunked=*/false);
  setErrors(plan::workerError, packed.getError());
  Value chunks = builder.create<dist::AllToAllOp>(
      loc, words(ranks, 1), packed.getWords(), builder.getArrayAttr(axes),
      builder.getI64IntegerAttr(1), builder.getI64IntegerAttr(0), reason(),
      TypeAttr(), DenseI64ArrayAttr(), UnitAttr());
  Value error = kept(readErrors(plan::serverError, layout.elements));
  return builder.create<nn::MeanSignsOp>(loc, error.getType(), chunks, received,
                                         error, first(/*isChunked=*/true),
                                         counts(), parts(), ArrayAttr());
}

Value SignExchange::finish(Value y, Value scale, Value received) {
  auto mean = pack(y, scale, /*isChunked=*/true);
  setErrors(plan::serverError, mean.getError());
  Value factors = average.getFactors();
  if (factors)
    factors =
        nn::buildMap(builder, loc, factors, [](nn::Scalars &s, ValueRange x) {
          return s.select(s.isGreater(x[0], s.real(0)), s.div(s.real(1), x[0]),
                          s.real(0));
        });
  return builder.create<nn::UnpackSignsOp>(
      loc, average.getOutput().getType(),
      gather(mean.getWords(), words(ranks, 1)), received, average.getState(),
      average.getCondition(), factors, counts(), parts(), ArrayAttr());
}

static void replace(nn::AverageOp average, Value result) {
  Operation *state = average.getState().getDefiningOp();
  average.replaceAllUsesWith(result);
  average.erase();
  if (isa_and_nonnull<nn::FillOp>(state) && state->use_empty())
    state->erase();
}

/// Computes the average's body from this rank's gradient times `ranks`, the
/// number of replicas of which its gradient is a summand. The result is read
/// only if the step updates.
static Value computeOwn(nn::AverageOp average, double ranks) {
  OpBuilder builder(average);
  SmallVector<Value> inputs = {average.getGradient()};
  llvm::append_range(inputs, inputsOf(average));
  return nn::buildMap(
      builder, average.getLoc(), inputs,
      [&](nn::Scalars &s, ValueRange x) {
        Value own = ranks == 1 ? x[0] : s.mul(x[0], s.real(ranks));
        return contribution(s, average, own, x.drop_front());
      },
      average.getType());
}

/// Computes an average of which every rank has the sum of the gradients.
static void computeFromSum(nn::AverageOp average) {
  average.sendNothing();
  if (average.getState().getDefiningOp<nn::FillOp>())
    return replace(average, computeOwn(average, /*ranks=*/1));
  OpBuilder builder(average);
  replace(average,
          updated(builder, average, "average", average.getState(),
                  inputsOf(average), [&](nn::Scalars &s, ValueRange x) {
                    return contribution(s, average, x[1], x.drop_front(2));
                  }));
}

/// Computes an average from what replicas compute, which they all-reduce.
static void allReduce(nn::AverageOp average, dist::MeshOp mesh) {
  SmallVector<Attribute> axes = replicaAxes(mesh);
  auto ranks = static_cast<double>(mesh.getSize(axes));
  Value own = computeOwn(average, ranks);
  OpBuilder builder(average);
  average.getGradientMutable().assign(builder.create<dist::AllReduceOp>(
      average.getLoc(), own.getType(), own, builder.getArrayAttr(axes),
      builder.getStringAttr("nn.average"), TypeAttr(), DenseI64ArrayAttr(),
      UnitAttr()));
  average.getInputsMutable().clear();
  Block &body = average.getBody().front();
  while (!body.empty())
    body.back().erase();
  body.eraseArguments(2, body.getNumArguments() - 2);
  nn::Scalars s(average.getLoc(), builder.getContext());
  s.setInsertionPointToEnd(&body);
  s.create<nn::ReturnOp>(ValueRange{s.div(body.getArgument(1), s.real(ranks))});
  computeFromSum(average);
}

static void expand(nn::AverageOp average, dist::MeshOp mesh) {
  SignExchange exchange(average, mesh);
  Value x = exchange.begin();
  Value scale = exchange.scalesOf(x, /*isChunked=*/false);
  Value y = exchange.send(x, scale, exchange.gathered(scale));
  scale = exchange.scalesOf(y, /*isChunked=*/true);
  replace(average, exchange.finish(y, scale, exchange.gathered(scale)));
}

/// The scale of all tensors together: the root of the mean square. `sums` are
/// the sums of squares, and the numbers of elements.
static Value jointScale(OpBuilder &builder,
                        ArrayRef<std::pair<Value, Value>> sums) {
  SmallVector<Value> operands;
  for (auto [squares, elements] : sums)
    operands.append({squares, elements});
  return nn::buildMap(builder, operands.front().getLoc(), operands,
                      [](nn::Scalars &s, ValueRange x) -> Value {
                        Value squares = x[0], elements = x[1];
                        for (size_t i = 2; i < x.size(); i += 2) {
                          squares = s.add(squares, x[i]);
                          elements = s.add(elements, x[i + 1]);
                        }
                        // A rank may have no element of any tensor.
                        elements =
                            s.create<arith::MaximumFOp>(elements, s.real(1));
                        return s.create<math::SqrtOp>(s.div(squares, elements));
                      });
}

/// Expands averages for which a replica has one scale.
static void expandJointly(ArrayRef<nn::AverageOp> averages, dist::MeshOp mesh) {
  SmallVector<SignExchange, 0> exchanges;
  SmallVector<Value> tensors;
  SmallVector<std::pair<Value, Value>> sums;
  // An update may apply the first of them before the others are computed.
  OpBuilder builder(averages.front());
  for (nn::AverageOp average : averages) {
    SignExchange &one = exchanges.emplace_back(average, mesh);
    one.moveBefore(averages.front());
    tensors.push_back(one.begin());
    sums.push_back(one.squaresOf(one.scalesOf(tensors.back(), false), false));
  }
  Value scale = jointScale(builder, sums);
  Value received = exchanges.front().gathered(scale);
  for (auto [one, tensor, sum] : llvm::zip_equal(exchanges, tensors, sums)) {
    tensor = one.send(tensor, scale, received);
    sum = one.squaresOf(one.scalesOf(tensor, true), true);
  }
  scale = jointScale(builder, sums);
  received = exchanges.front().gathered(scale);
  for (auto [one, tensor] : llvm::zip_equal(exchanges, tensors))
    tensor = one.finish(tensor, scale, received);
  for (auto [average, result] : llvm::zip_equal(averages, tensors))
    replace(average, result);
}

namespace {

struct ExpandAverages : heddle::impl::SpmdExpandAveragesBase<ExpandAverages> {
  void runOnOperation() override {
    nn::ModelOp model = getOperation();
    auto mesh = model.lookupSymbol<dist::MeshOp>("mesh");
    int64_t ranks = mesh ? mesh.getSize(replicaAxes(mesh)) : 1;
    for (auto step : model.getOps<nn::StepOp>()) {
      SmallVector<nn::AverageOp> averages(
          step.getBody().getOps<nn::AverageOp>()),
          joint;
      for (nn::AverageOp average : averages)
        if (ranks == 1 || average.getWire() == "f32")
          computeFromSum(average);
        else if (average.getWire() == "local")
          replace(average, computeOwn(average, static_cast<double>(ranks)));
        else if (average.getWire() == "mean")
          allReduce(average, mesh);
        else if (average.getJoint())
          joint.push_back(average);
        else
          expand(average, mesh);
      if (!joint.empty())
        expandJointly(joint, mesh);
    }
    keepLocalStates(model, mesh);
  }
};

} // namespace
