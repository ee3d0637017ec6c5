//===- TileProducts.cpp - Computes products by row tiles ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the pass `spmd-tile-products`: see Passes.td. If ranks all-gather
// a weight, every rank divides its own shard into row tiles. A gathered tile
// then consists of one range of rows from each rank's shard. The storage of the
// shards is the same as without tiles.
//
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//

#include "CutLayer.h"
#include "Layers.h"
#include "Slices.h"
#include "StateTiles.h"
#include "TilePlan.h"
#include "dialects/Dist/ByteSize.h"
#include "heddle/Transforms/Common/Programs.h"
#include "heddle/Transforms/Spmd/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include <map>

using namespace mlir;
using namespace heddle;
using namespace heddle::spmd;
using nn::tensorOf;

namespace heddle {
#define GEN_PASS_DEF_SPMDTILEPRODUCTS
#include "include/heddle/Transforms/Spmd/Passes.h.inc"
} // namespace heddle

namespace {

/// A gradient whose row tiles are computed and reduce-scattered one after the
/// other.
struct Sums {
  Gradient gradient;
  SmallVector<Value> parts;
  /// The reduce-scatter of the last tile that was computed. Nothing waits for
  /// this reduce-scatter yet.
  dist::ReduceScatterOp last;
};

/// In one model, replaces each product with a tiled weight or gradient
/// (`--tile`) by one product for each row tile.
class Tiler {
public:
  Tiler(nn::ModelOp model, const TiledWeights &tiled)
      : model(model), strategy(model.getStrategy().getValue()), symbols(model),
        planner(model, tiled, symbols), builder(model.getContext()) {}

  LogicalResult run() {
    SmallVector<Operation *> ops;
    for (auto step : model.getOps<nn::StepOp>())
      step.walk([&](Operation *op) {
        if (isa<nn::CallOp, nn::LinearOp, nn::LinearGradWeightOp,
                nn::EmbeddingOp>(op))
          ops.push_back(op);
      });
    for (Operation *op : ops) {
      auto layer = dyn_cast<nn::CallOp>(op);
      FailureOr<TilePlan> plan =
          layer ? planner.planOf(layer) : planner.planOf(op);
      if (failed(plan))
        return failure();
      if (plan->weights.empty() && plan->gradients.empty())
        continue;
      number = 0;
      if (layer)
        replace(layer, *plan);
      else
        replace(op, *plan);
      replaced.push_back(op);
    }
    // Erase the replaced operations only at the end, because they are keys of
    // the map `functions`.
    for (Operation *op : replaced)
      erase(op);
    eraseUncalled(model);
    return success();
  }

  const TilePlanner &plans() const { return planner; }

private:
  //===--------------------------------------------------------------------===//
  // Transferring tiles
  //===--------------------------------------------------------------------===//

  /// Returns the operation before which the transfer of a tile that `layer`
  /// reads starts: the call of the previous layer, so that the transfer
  /// overlaps with that layer. Returns `layer` itself if no layer precedes it.
  static Operation *ahead(Operation *layer) {
    Operation *call = neighbour(layer, /*before=*/true);
    return call ? call : layer;
  }

  Value indexOf(Location loc, int64_t value) {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  }

  Value waitFor(Operation *use, Value pending) {
    builder.setInsertionPoint(use);
    return builder.create<dist::WaitOp>(use->getLoc(), pending.getType(),
                                        pending);
  }

  /// Fetches a range of a flat state. The fetch starts before the operation
  /// `at`, and the wait for it is before the operation `use`.
  Value fetch(nn::BucketOp bucket, int64_t element, RankedTensorType type,
              Operation *at, Operation *use) {
    int64_t page = pageBytes / dist::byteSize(type.getElementType());
    int64_t lead = element % page;
    auto flat = type.clone({lead + nn::paddedElements(type.getNumElements())});
    builder.setInsertionPoint(at);
    Value run = builder.create<dist::FetchOp>(
        use->getLoc(), flat, bucket.getSymName(), element - lead,
        /*pending=*/true);
    Value there = waitFor(use, run);
    SmallVector<Type> types;
    if (lead > 0)
      types.push_back(type.clone({lead}));
    types.push_back(type);
    auto parts =
        builder.create<nn::UnpackOp>(use->getLoc(), types, there, nullptr);
    return parts.getMembers().back();
  }

  /// Returns the rows of a tile that are in this rank's shard of the weight. If
  /// the weight is offloaded, the fetch of these rows is complete before the
  /// operation `use`.
  Value partOf(const Weight &weight, const RowTile &tile, Operation *use) {
    if (weight.isOffloaded)
      return fetch(weight.bucket, weight.first + tile.first * weight.width(),
                   weight.part(tile), ahead(use), use);
    builder.setInsertionPoint(use);
    Location loc = use->getLoc();
    nn::BucketOp bucket = weight.bucket;
    Value flat =
        builder.create<nn::GetOp>(loc, bucket.getType(), bucket.getSymName());
    Type type = weight.type.clone({weight.rowsOfPart(), weight.width()});
    Value rows =
        builder.create<nn::UnpackOp>(loc, type, flat, nullptr).getMembers()[0];
    return sliceOf(builder, rows, 0, indexOf(loc, tile.first), tile.rows);
  }

  /// Returns the tile of a weight that the operation `use` reads. If the tile
  /// must be fetched or all-gathered, the transfer starts before the layer that
  /// precedes `use`, unless the tile is larger than the user's limit on what is
  /// fetched early.
  Value tileOf(const Weight &weight, const RowTile &tile, Operation *use) {
    RankedTensorType whole = weight.whole(tile);
    bool isEarly = whole.getNumElements() <= strategy.prefetchBucketSize;
    Operation *begin = isEarly ? ahead(use) : use;
    if (!weight.gather)
      return fetch(weight.bucket, weight.first + tile.first * weight.width(),
                   whole, begin, use);
    Value part = partOf(weight, tile, begin);
    dist::AllGatherOp like = weight.gather;
    Value gathered = builder.create<dist::AllGatherOp>(
        like.getLoc(), whole, part, like.getAxes(),
        builder.getI64IntegerAttr(0), like.getReasonAttr(), like.getWireAttr(),
        DenseI64ArrayAttr(), builder.getUnitAttr());
    return waitFor(use, gathered);
  }

  //===--------------------------------------------------------------------===//
  // Computing with tiles
  //===--------------------------------------------------------------------===//

  /// Returns the features of `value` that a row tile needs: row i of the weight
  /// belongs to feature i of the value.
  Value rowsOf(Value value, const Tiling &tiling, const RowTile &tile,
               Value first) {
    auto type = tensorOf(value);
    int64_t last = type.getRank() - 1;
    if (tiling.ranks == 1)
      return sliceOf(builder, value, last, first, tile.rows);
    SmallVector<int64_t> shape(type.getShape());
    shape[last] = tiling.ranks;
    shape.push_back(tiling.rowsOfPart());
    Value apart = builder.create<nn::ReshapeOp>(
        value.getLoc(), type.clone(shape), value, ArrayAttr());
    Value slice = sliceOf(builder, apart, last + 1, first, tile.rows);
    shape.pop_back();
    shape[last] = tiling.ranks * tile.rows;
    return builder.create<nn::ReshapeOp>(value.getLoc(), type.clone(shape),
                                         slice, ArrayAttr());
  }

  /// Concatenates the results of all tiles along the features, in the order of
  /// the weight's rows.
  Value join(SmallVector<Value> parts, const Tiling &tiling) {
    auto type = tensorOf(parts.front());
    int64_t last = type.getRank() - 1;
    if (tiling.ranks == 1)
      return concatOf(builder, std::move(parts), last);
    SmallVector<int64_t> shape(type.getShape());
    Location loc = parts.front().getLoc();
    for (auto [part, tile] : llvm::zip(parts, tiling.tiles)) {
      SmallVector<int64_t> apart(shape);
      apart[last] = tiling.ranks;
      apart.push_back(tile.rows);
      part = builder.create<nn::ReshapeOp>(loc, type.clone(apart), part,
                                           ArrayAttr());
    }
    Value whole = concatOf(builder, std::move(parts), last + 1);
    shape[last] = tiling.type.getDimSize(0);
    return builder.create<nn::ReshapeOp>(loc, type.clone(shape), whole,
                                         ArrayAttr());
  }

  /// Inserts before `use` a call of a function that computes a tile. `body`
  /// builds the function's body from the function's arguments. Tiles of the
  /// same product with the same number of rows share one function. `passed`
  /// says what the tile is if it is skipped, as in CallOp::getPasses.
  Value call(Operation *use, Operation *product, const RowTile &tile,
             ValueRange operands, llvm::function_ref<Value(ValueRange)> body,
             int64_t passed = nn::CallOp::passesNothing) {
    nn::FuncOp &function = functions[{product, tile.rows, operands.size()}];
    Location loc = product->getLoc();
    if (!function) {
      Operation *owner = model.getBodyBlock()->findAncestorOpInBlock(*product);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(owner);
      function = builder.create<nn::FuncOp>(
          loc, (SymbolTable::getSymbolName(owner).getValue() + ".tile").str(),
          builder.getFunctionType(operands.getTypes(), {}));
      symbols.insert(function);
      SmallVector<Location> places(operands.size(), loc);
      Block *block = builder.createBlock(&function.getBody(), {},
                                         operands.getTypes(), places);
      Value result = body(block->getArguments());
      builder.create<nn::ReturnOp>(loc, result);
      function.setFunctionType(
          builder.getFunctionType(operands.getTypes(), result.getType()));
    }
    builder.setInsertionPoint(use);
    auto made =
        builder.create<nn::CallOp>(loc, function, operands, nextPath(use));
    skipWith(use, made, passed);
    return made.getResult(0);
  }

  /// If steps may skip `use`, they skip `part`, a call that computes a part of
  /// it, with it. `passes` says what the results of `part` then are.
  static void skipWith(Operation *use, nn::CallOp part,
                       ArrayRef<int64_t> passes) {
    auto layer = dyn_cast<nn::CallOp>(use);
    if (!layer || !layer.getWhen())
      return;
    part.setWhenAttr(layer.getWhenAttr());
    part.setPasses(passes);
  }

  Value castTo(Value value, Type element) {
    auto type = tensorOf(value);
    if (type.getElementType() == element)
      return value;
    return builder.create<nn::CastOp>(value.getLoc(), type.clone(element),
                                      value, ArrayAttr());
  }

  /// Computes a product in tiles of its weight. If the weight's rows are output
  /// features, the results of the tiles are concatenated. If the rows are input
  /// features, each tile gives a partial sum of the output. A tile's product is
  /// then added to the partial sum of the tiles before it, in f32. The bias is
  /// added after the last tile, so that the result is rounded once.
  Value compute(nn::LinearOp linear, const Weight &weight, IRMapping &values,
                Operation *use) {
    bool sums = !linear.getTransposed();
    Type element = getElementTypeOrSelf(linear.getOutput());
    Type made = sums || linear.getBias() ? Type(builder.getF32Type()) : element;
    Value input = values.lookupOrDefault(linear.getInput());
    SmallVector<int64_t> shape(tensorOf(linear.getOutput()).getShape());
    SmallVector<Value> parts;
    for (const RowTile &tile : weight.tiles) {
      SmallVector<Value> operands = {input, tileOf(weight, tile, use)};
      if (sums) {
        builder.setInsertionPoint(use);
        operands.push_back(indexOf(linear.getLoc(), tile.first));
        if (!parts.empty())
          operands.push_back(parts.pop_back_val());
      } else {
        shape.back() = tile.rows * weight.ranks;
      }
      auto type = RankedTensorType::get(shape, made);
      parts.push_back(call(use, linear, tile, operands, [&](ValueRange in) {
        Value x = sums ? rowsOf(in[0], weight, tile, in[2]) : in[0];
        Value init = in.size() < 4 ? Value() : in[3];
        return builder.create<nn::LinearOp>(
            linear.getLoc(), type, x, in[1], /*bias=*/Value(), init,
            linear.getTransposedAttr(), ArrayAttr());
      }));
    }
    builder.setInsertionPoint(use);
    Value output = sums ? parts[0] : join(std::move(parts), weight);
    if (linear.getBias())
      output = builder.create<nn::AddBiasOp>(
          linear.getLoc(), output.getType(), output,
          values.lookupOrDefault(linear.getBias()), ArrayAttr());
    return castTo(output, element);
  }

  /// Computes an embedding in tiles of its table. For each tile, the ids whose
  /// rows it contains are looked up, and the other ids get zeros. The results
  /// of all tiles and ranks are added up. Only one term of each sum is not
  /// zero, so the sum is exact in every type.
  Value compute(nn::EmbeddingOp embedding, const Weight &weight,
                Operation *use) {
    Location loc = embedding.getLoc();
    Type type = embedding.getType();
    Value sum;
    for (const RowTile &tile : weight.tiles) {
      SmallVector<Value> operands = {embedding.getIds(),
                                     tileOf(weight, tile, use)};
      if (sum)
        operands.push_back(sum);
      size_t firsts = operands.size();
      builder.setInsertionPoint(use);
      for (int64_t part = 0; part < weight.ranks; ++part)
        operands.push_back(
            indexOf(loc, part * weight.rowsOfPart() + tile.first));
      sum = call(use, embedding, tile, operands, [&](ValueRange in) {
        Value rows = firsts > 2 ? in[2] : Value();
        for (int64_t part = 0; part < weight.ranks; ++part) {
          Value table = in[1];
          if (weight.ranks > 1)
            table = sliceOf(builder, table, 0, indexOf(loc, part * tile.rows),
                            tile.rows);
          Value found = builder.create<nn::EmbeddingOp>(
              loc, type, table, in[0], in[firsts + part], IntegerAttr(),
              ArrayAttr());
          rows = rows ? builder.create<nn::AddOp>(loc, type, rows, found,
                                                  ArrayAttr())
                      : found;
        }
        return rows;
      });
    }
    return sum;
  }

  /// Computes the gradient of a weight tile by tile. The reduce-scatter of a
  /// tile overlaps with the computation of the next one.
  Sums compute(nn::LinearGradWeightOp product, const Gradient &gradient,
               IRMapping &values, Operation *use) {
    Sums sums = {gradient, {}, {}};
    Location loc = product.getLoc();
    bool ofInput = !product.getTransposed();
    for (const RowTile &tile : gradient.tiles) {
      builder.setInsertionPoint(use);
      SmallVector<Value> operands = {values.lookupOrDefault(product.getInput()),
                                     values.lookupOrDefault(product.getGrad()),
                                     indexOf(loc, tile.first)};
      auto computeRows = [&](ValueRange in) {
        Value part = rowsOf(in[ofInput ? 0 : 1], gradient, tile, in[2]);
        return builder.create<nn::LinearGradWeightOp>(
            loc, gradient.whole(tile), ofInput ? part : in[0],
            ofInput ? in[1] : part, Value(), product.getTransposedAttr(),
            ArrayAttr());
      };
      Value rows = call(use, product, tile, operands, computeRows,
                        nn::CallOp::passesZeros);
      if (sums.last)
        sums.parts.push_back(waitFor(use, sums.last.getOutput()));
      dist::ReduceScatterOp like = gradient.scatter;
      sums.last = builder.create<dist::ReduceScatterOp>(
          like.getLoc(), gradient.part(tile), rows, like.getAxes(),
          builder.getI64IntegerAttr(0), like.getReasonAttr(),
          like.getWireAttr(), DenseI64ArrayAttr(), builder.getUnitAttr());
    }
    return sums;
  }

  /// Concatenates the rank's shards of all tiles of a gradient. The
  /// concatenated shard replaces the result of the original reduce-scatter.
  void finish(Sums &sums, Operation *use) {
    sums.parts.push_back(waitFor(use, sums.last.getOutput()));
    dist::ReduceScatterOp scatter = sums.gradient.scatter;
    Value part = concatOf(builder, std::move(sums.parts), 0);
    scatter.getOutput().replaceAllUsesWith(builder.create<nn::PackOp>(
        scatter.getLoc(), scatter.getOutput().getType(), part));
    scatter.erase();
    sums.gradient.pack.erase();
  }

  //===--------------------------------------------------------------------===//
  // Layers
  //===--------------------------------------------------------------------===//

  ArrayRef<LayerStep> stepsOf(nn::FuncOp layer, const TilePlan &plan,
                              ArrayRef<int64_t> passes) {
    SmallVector<Operation *> ops;
    for (auto &[product, weight] : plan.weights)
      ops.push_back(product);
    for (auto &[product, gradient] : plan.gradients)
      ops.push_back(product);
    llvm::sort(
        ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    auto [entry, isNew] = steps.try_emplace(
        {layer, std::vector<Operation *>(ops.begin(), ops.end()),
         passes.vec()});
    if (isNew)
      entry->second = cutLayer(layer, ops, passes, symbols);
    return entry->second;
  }

  /// Returns the module path (such as `h.0`) for the next nn.call that replaces
  /// a part of a layer. The first call gets the path of the layer itself,
  /// because other passes count the layers by their paths. Later calls get a
  /// suffix.
  StringAttr nextPath(Operation *use) {
    auto layer = dyn_cast<nn::CallOp>(use);
    std::string path = layer ? layer.getPath().str() : outside;
    if (number++ > 0)
      path += "." + std::to_string(number - 1);
    return builder.getStringAttr(path);
  }

  /// Returns the module path for the nn.call operations that replace a product
  /// outside of layers. The path extends that of an adjacent layer, so that the
  /// calls belong to the same pipeline stage as that layer.
  static std::string pathOutside(Operation *product, StringRef name) {
    nn::CallOp layer = neighbour(product, /*before=*/true);
    if (!layer)
      layer = neighbour(product, /*before=*/false);
    return layer ? (layer.getPath() + "." + name).str() : name.str();
  }

  /// Replaces a product outside of layers by products with the tiles of its
  /// weight or gradient.
  void replace(Operation *product, const TilePlan &plan) {
    IRMapping values;
    if (auto linear = dyn_cast<nn::LinearOp>(product)) {
      const Weight &weight = plan.weights.front().second;
      outside = pathOutside(product, weight.parameter);
      linear.getOutput().replaceAllUsesWith(
          compute(linear, weight, values, product));
      return;
    }
    if (auto embedding = dyn_cast<nn::EmbeddingOp>(product)) {
      const Weight &weight = plan.weights.front().second;
      outside = pathOutside(product, weight.parameter);
      embedding.replaceAllUsesWith(compute(embedding, weight, product));
      return;
    }
    const Gradient &gradient = plan.gradients.front().second;
    dist::ReduceScatterOp scatter = gradient.scatter;
    outside = pathOutside(product, scatter.getReason());
    Sums sums = compute(cast<nn::LinearGradWeightOp>(product), gradient, values,
                        product);
    finish(sums, product);
  }

  void replace(nn::CallOp layer, const TilePlan &plan) {
    auto function = symbols.lookup<nn::FuncOp>(layer.getCallee());
    Block &body = function.getBody().front();
    IRMapping values;
    values.map(body.getArguments(), layer.getOperands());
    SmallVector<Sums> sums;
    ArrayRef<int64_t> passes = layer.getPasses().value_or(ArrayRef<int64_t>());
    for (const LayerStep &step : stepsOf(function, plan, passes)) {
      if (step.piece) {
        builder.setInsertionPoint(layer);
        auto inputs = llvm::map_to_vector(
            step.inputs, [&](Value input) { return values.lookup(input); });
        nn::FuncOp callee = step.piece;
        auto piece = builder.create<nn::CallOp>(layer.getLoc(), callee, inputs,
                                                nextPath(layer),
                                                layer.getRecomputeAttr());
        skipWith(layer, piece, step.passes);
        values.map(step.outputs, piece.getResults());
      } else if (auto linear = dyn_cast<nn::LinearOp>(step.product)) {
        const Weight &weight = plan.weights.find(linear)->second;
        values.map(linear.getOutput(), compute(linear, weight, values, layer));
      } else {
        auto product = cast<nn::LinearGradWeightOp>(step.product);
        const Gradient &gradient = plan.gradients.find(product)->second;
        sums.push_back(compute(product, gradient, values, layer));
      }
    }
    for (Sums &each : sums)
      finish(each, layer);
    for (auto [result, returned] :
         llvm::zip(layer.getResults(), body.getTerminator()->getOperands()))
      if (!result.use_empty())
        result.replaceAllUsesWith(values.lookup(returned));
  }

  /// Erases an operation, and those operations that compute its operands and
  /// have no other use.
  static void erase(Operation *op) {
    llvm::SetVector<Operation *> makers;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        makers.insert(maker);
    op->erase();
    for (Operation *maker : makers)
      eraseUnused(maker);
  }

  /// Erases the read, the all-gather and the unpacking of a weight, if nothing
  /// uses the whole weight any more.
  static void eraseUnused(Operation *op) {
    if (!op || !op->use_empty() ||
        !isa<nn::GetOp, nn::UnpackOp, dist::AllGatherOp>(op))
      return;
    Operation *from =
        op->getNumOperands() > 0 ? op->getOperand(0).getDefiningOp() : nullptr;
    op->erase();
    eraseUnused(from);
  }

  nn::ModelOp model;
  const dist::Strategy &strategy;
  SymbolTable symbols;
  TilePlanner planner;
  OpBuilder builder;
  /// How many calls have replaced parts of the current layer so far. `nextPath`
  /// appends this number to a call's path to make the path unique.
  int64_t number = 0;
  std::string outside; ///< The path of the current product outside of layers.
  SmallVector<Operation *> replaced;
  /// The steps of each layer that was cut. The key is the layer's function, the
  /// products at which it was cut, and what its results are if it is skipped.
  std::map<
      std::tuple<Operation *, std::vector<Operation *>, std::vector<int64_t>>,
      SmallVector<LayerStep>>
      steps;
  /// The functions that compute tiles. The key is the product, the number of
  /// rows of the tile, and the number of operands.
  std::map<std::tuple<Operation *, int64_t, size_t>, nn::FuncOp> functions;
};

struct TileProducts : heddle::impl::SpmdTileProductsBase<TileProducts> {
  void runOnOperation() override {
    std::vector<std::string> found, products;
    std::optional<TiledWeights> asked;
    nn::ModelOp last;
    for (auto model : getOperation().getOps<nn::ModelOp>()) {
      FailureOr<TiledWeights> tiled = TiledWeights::of(model);
      if (failed(tiled))
        return signalPassFailure();
      if (tiled->empty() ||
          model.getStrategy().getValue().mode != config::Mode::Train)
        continue;
      Tiler tiler(model, *tiled);
      if (failed(tiler.run()))
        return signalPassFailure();
      llvm::append_range(found, tiler.plans().found);
      llvm::append_range(products, tiler.plans().products);
      asked = std::move(*tiled);
      last = model;
    }
    numTiled += found.size();
    if (!asked)
      return;
    SmallVector<StringRef> names(products.begin(), products.end());
    for (StringRef pattern : asked->unmatched(names)) {
      llvm::sort(names, [&](StringRef a, StringRef b) {
        return std::pair(pattern.edit_distance(a), a) <
               std::pair(pattern.edit_distance(b), b);
      });
      names.erase(std::unique(names.begin(), names.end()), names.end());
      last.emitError("H0149: --tile ")
          << pattern << " matches no weight of a product"
          << (names.empty() ? "" : "; there are ")
          << llvm::join(ArrayRef(names).take_front(3), ", ");
      return signalPassFailure();
    }
    if (found.empty())
      last.emitWarning("--tile has no effect: every rank has these weights in "
                       "the device's memory; --zero 3 gathers them, and "
                       "--place parameters=file fetches them");
  }
};

} // namespace
