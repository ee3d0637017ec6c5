//===- TilePlan.cpp - Which weights are computed by row tiles -------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TilePlan.h"
#include "heddle/Transforms/Common/States.h"
#include <numeric>

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;
using nn::tensorOf;

TilePlanner::TilePlanner(nn::ModelOp model, const TiledWeights &tiled,
                         const SymbolTable &symbols)
    : tiled(tiled), symbols(symbols) {
  for (auto bucket : model.getOps<nn::BucketOp>()) {
    int64_t first = 0;
    for (StringRef member : statesOf(symbols, bucket.getSymName())) {
      places[member] = {bucket, first};
      first += nn::paddedElements(
          symbols.lookup<nn::StateOp>(member).getTensorType().getNumElements());
    }
  }
}

StringRef TilePlanner::parameterOf(StringRef name) const {
  auto state = symbols.lookup<nn::StateOp>(name);
  return state && state.getParameter() ? *state.getParameter() : name;
}

/// Describes a value that is a weight. The value must be read from a state, or
/// ranks must all-gather it from a bucket with one member. Returns nullopt for
/// every other value.
std::optional<Weight> TilePlanner::weightOf(Value value) {
  Weight weight;
  if (!isa<RankedTensorType>(value.getType()))
    return {};
  weight.type = tensorOf(value);
  StringRef state;
  if (auto unpack = value.getDefiningOp<nn::UnpackOp>()) {
    weight.gather = unpack.getFlat().getDefiningOp<dist::AllGatherOp>();
    auto get = weight.gather
                   ? weight.gather.getInput().getDefiningOp<nn::GetOp>()
                   : nn::GetOp();
    if (!get || unpack.getNumResults() != 1)
      return {};
    weight.bucket = symbols.lookup<nn::BucketOp>(get.getState());
    if (!weight.bucket)
      return {};
    state = statesOf(symbols, get.getState()).front();
    weight.ranks = tensorOf(weight.gather.getOutput()).getNumElements() /
                   tensorOf(weight.gather.getInput()).getNumElements();
  } else if (auto get = value.getDefiningOp<nn::GetOp>();
             get && !get.getSlot()) {
    state = get.getState();
    auto place = places.find(state);
    if (place != places.end())
      std::tie(weight.bucket, weight.first) = place->second;
  } else {
    return {};
  }
  weight.parameter = parameterOf(state).str();
  weight.isOffloaded = memoryOf(symbols, state) != nn::MemoryKind::Device;
  return weight;
}

/// Returns the unit of a tile's size, in rows: every tile's size must be a
/// multiple of it. If results of tiles are summed, the unit is 32 rows, because
/// one AMX instruction adds 32 products of elements. The sum over tiles then
/// has the same bits as the matrix product without tiles.
static int64_t unitOfSums(const Weight &weight, ArrayRef<Operation *> ops) {
  bool sums = llvm::any_of(ops, [](Operation *op) {
    auto linear = dyn_cast<nn::LinearOp>(op);
    return linear && !linear.getTransposed();
  });
  return sums && !weight.type.getElementType().isF32() ? 32 : 1;
}

/// Divides a weight into tiles. If ranks all-gather the weight, the shards of
/// all ranks are divided into the same tiles. Otherwise the number of rows of a
/// tile is a multiple of `unit`, and each tile begins at a multiple of 64
/// elements, as the tensors in a bucket do.
LogicalResult TilePlanner::cut(Tiling &tiling, StringRef parameter,
                               int64_t unit, bool isOffloaded,
                               Operation *place) {
  int64_t count = tiled.tilesOf(parameter, tiling.type);
  int64_t rows = tiling.type.getDimSize(0), width = tiling.width();
  int64_t piece = nn::paddedElements(1);
  if (tiling.ranks == 1) {
    int64_t step =
        llvm::alignTo(llvm::divideCeil(rows, count),
                      std::lcm(unit, piece / std::gcd(piece, width)));
    for (int64_t first = 0; first < rows; first += step)
      tiling.tiles.push_back({first, std::min(step, rows - first)});
    return success();
  }
  auto fits = [&](int64_t parts) {
    int64_t elements = rows * width;
    return rows % (tiling.ranks * parts) == 0 &&
           nn::paddedElements(elements, tiling.ranks) == elements &&
           (!isOffloaded || elements / tiling.ranks / parts % piece == 0);
  };
  if (!fits(count)) {
    InFlightDiagnostic error = place->emitError("H0149: ")
                               << rows << " rows of " << width
                               << " elements of " << parameter << ", which "
                               << tiling.ranks << " ranks gather, are not "
                               << count << " equal tiles";
    SmallVector<int64_t> choices;
    for (int64_t parts = 2; parts <= 64 && choices.size() < 6; ++parts)
      if (fits(parts))
        choices.push_back(parts);
    if (choices.empty())
      error << "; let --tile leave it out";
    else
      error << "; choose "
            << llvm::join(
                   llvm::map_range(choices,
                                   [](int64_t n) { return std::to_string(n); }),
                   ", ");
    return error;
  }
  int64_t step = tiling.rowsOfPart() / count;
  for (int64_t first = 0; first < tiling.rowsOfPart(); first += step)
    tiling.tiles.push_back({first, step});
  return success();
}

/// Describes the gradient that a layer returns as `result` and that ranks
/// reduce-scatter. Returns nullopt if the result is no such gradient, or if the
/// gradient's bucket has other gradients too.
std::optional<Gradient> TilePlanner::gradientOf(OpResult result,
                                                std::string &parameter) {
  Gradient gradient;
  if (!isa<RankedTensorType>(result.getType()) || !result.hasOneUse())
    return {};
  gradient.type = tensorOf(result);
  gradient.pack = dyn_cast<nn::PackOp>(*result.getUsers().begin());
  if (!gradient.pack || gradient.pack.getMembers().size() != 1 ||
      !gradient.pack.getFlat().hasOneUse())
    return {};
  gradient.scatter = dyn_cast<dist::ReduceScatterOp>(
      *gradient.pack.getFlat().getUsers().begin());
  if (!gradient.scatter || !gradient.scatter.getOutput().hasOneUse())
    return {};
  Operation *user = *gradient.scatter.getOutput().getUsers().begin();
  if (isa<nn::AddOp>(user) && user->hasOneUse())
    user = *user->getUsers().begin();
  auto set = dyn_cast<nn::SetOp>(user);
  if (!set)
    return {};
  parameter = parameterOf(statesOf(symbols, set.getState()).front()).str();
  gradient.ranks = tensorOf(gradient.scatter.getInput()).getNumElements() /
                   tensorOf(gradient.scatter.getOutput()).getNumElements();
  return gradient;
}

LogicalResult TilePlanner::addWeight(Value operand, ArrayRef<Operation *> ops,
                                     Operation *place, TilePlan &plan) {
  std::optional<Weight> weight = weightOf(operand);
  if (!weight)
    return success();
  products.push_back(weight->parameter);
  if (tiled.tilesOf(weight->parameter, weight->type) == 1 || !weight->bucket ||
      !(weight->gather || weight->isOffloaded))
    return success();
  found.push_back(weight->parameter);
  if (failed(cut(*weight, weight->parameter, unitOfSums(*weight, ops),
                 weight->isOffloaded, place)))
    return failure();
  if (weight->tiles.size() > 1)
    for (Operation *product : ops)
      plan.weights.insert({product, *weight});
  return success();
}

LogicalResult TilePlanner::addGradient(OpResult result,
                                       nn::LinearGradWeightOp product,
                                       Operation *place, TilePlan &plan) {
  std::string parameter;
  std::optional<Gradient> gradient = gradientOf(result, parameter);
  if (product.getInit() || !product.getOutput().hasOneUse() || !gradient ||
      tiled.tilesOf(parameter, gradient->type) == 1)
    return success();
  if (failed(
          cut(*gradient, parameter, /*unit=*/1, /*isOffloaded=*/false, place)))
    return failure();
  plan.gradients.insert({product, *gradient});
  return success();
}

static bool isWeightOfLinear(OpOperand &use) {
  auto linear = dyn_cast<nn::LinearOp>(use.getOwner());
  return linear && use.get() == linear.getWeight();
}

/// Whether the layer returns the result of an operation as a result that has a
/// value if `call`, a call of the layer, is skipped. Tiles are computed by
/// several calls, none of which can give the result that value.
static bool isPassed(Operation *product, nn::CallOp call) {
  ArrayRef<int64_t> passes = call.getPasses().value_or(ArrayRef<int64_t>());
  return !passes.empty() &&
         llvm::any_of(product->getUses(), [&](OpOperand &use) {
           return isa<nn::ReturnOp>(use.getOwner()) &&
                  passes[use.getOperandNumber()] >= 0;
         });
}

FailureOr<TilePlan> TilePlanner::planOf(nn::CallOp call) {
  auto layer = symbols.lookup<nn::FuncOp>(call.getCallee());
  Block &body = layer.getBody().front();
  TilePlan plan;
  for (auto [argument, operand] :
       llvm::zip(body.getArguments(), call.getOperands()))
    if (!argument.use_empty() &&
        llvm::all_of(argument.getUses(), isWeightOfLinear) &&
        llvm::none_of(argument.getUsers(),
                      [&](Operation *user) { return isPassed(user, call); }) &&
        failed(addWeight(operand, llvm::to_vector(argument.getUsers()), call,
                         plan)))
      return failure();
  for (auto [result, returned] :
       llvm::zip(call->getOpResults(), body.getTerminator()->getOperands()))
    if (auto product = returned.getDefiningOp<nn::LinearGradWeightOp>();
        product && failed(addGradient(result, product, call, plan)))
      return failure();
  return plan;
}

/// Whether an embedding is not computed in tiles. There are two possible
/// reasons. Ranks may already split the vocabulary, and their shards are not
/// divided further. Or the embedding fetches single rows from offloaded memory,
/// so it never needs the whole table.
bool TilePlanner::hasNoTiles(nn::EmbeddingOp embedding) {
  std::optional<Weight> weight = weightOf(embedding.getTable());
  return embedding.getFirst() ||
         (weight && !weight->gather && weight->isOffloaded &&
          fetchesRows(embedding, weight->first));
}

FailureOr<TilePlan> TilePlanner::planOf(Operation *product) {
  TilePlan plan;
  if (auto linear = dyn_cast<nn::LinearOp>(product);
      linear && failed(addWeight(linear.getWeight(), product, product, plan)))
    return failure();
  auto embedding = dyn_cast<nn::EmbeddingOp>(product);
  if (embedding && !hasNoTiles(embedding) &&
      failed(addWeight(embedding.getTable(), product, product, plan)))
    return failure();
  if (auto gradient = dyn_cast<nn::LinearGradWeightOp>(product);
      gradient &&
      failed(addGradient(product->getOpResult(0), gradient, product, plan)))
    return failure();
  return plan;
}
