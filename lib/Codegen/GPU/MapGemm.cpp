//===- MapGemm.cpp - A matrix product with its epilogue -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps a matrix product and its epilogue. A block multiplies tiles along k
// (GemmTiles.h), on the unit that is fastest for the operands (MultiplyUnit.h).
// Each thread then gets the sums of a few adjacent columns through shared
// memory, and computes results from them. With split-K, blocks write partial
// sums to scratch memory. A second launch adds the partial sums in order and
// computes the results. If the kernel also sums an operand along k (for the
// gradient of a bias), the blocks at one edge of the grid compute this sum,
// since together they load each tile of the operand once. Elements outside of
// the operands count as zero, and sums outside of the result are not stored.
//
//===----------------------------------------------------------------------===//

#include "MultiplyUnit.h"
#include "PackedTiles.h"
#include "ProductResults.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
class GemmMapper {
public:
  GemmMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
             const codegen::Product &product, const Chip &chip)
      : kernel(kernel), module(module), product(product),
        unit(unitFor(product, chip)),
        tiling(chooseTiling(product, unit, chip)) {}

  MappedKernel run();

private:
  using ChunkBody =
      llvm::function_ref<LogicalResult(Value row, Value column, Value sums)>;

  /// The number of sums along k of an operand (a factor of the product): one
  /// for each row of A or each column of B; 0 if no operand is summed.
  int64_t numFactorSums() const {
    if (product.sums.empty())
      return 0;
    return product.sumsA ? product.m : product.n;
  }
  int64_t scratchBytes() const {
    return tiling.parts > 1
               ? tiling.parts * (product.m * product.n + numFactorSums()) * 4
               : 0;
  }
  GemmOperand operand(Value value, bool kContiguous, int64_t outer,
                      int64_t tileOuter, Value firstOuter) const;
  LogicalResult startFrame(StringRef suffix);
  int64_t tilesM() const { return llvm::divideCeil(product.m, tiling.m); }
  int64_t tilesN() const { return llvm::divideCeil(product.n, tiling.n); }
  void placeBlock();
  LogicalResult emitProduct();
  FailureOr<SmallVector<Value>>
  emitSteps(const GemmBlock &block, GemmLoop &loop, Multiplier &multiplier);
  LogicalResult emitTile(SumTile &tile);
  LogicalResult emitTileChunk(SumTile &tile, Value row, Value column,
                              int64_t width);
  LogicalResult emitOddChunk(SumTile &tile, Value row, Value column,
                             int64_t width, bool isShifted);
  bool resultsArePadded();
  LogicalResult emitSumOfParts();
  SmallVector<Value> addParts(int64_t width,
                              llvm::function_ref<Value(Value)> pointer);
  Value partPointer(Value part, Value row, Value column);
  Value factorPartPointer(Value part, Value place);
  LogicalResult emitFactorSum(Value place, Value sum);
  LogicalResult storeFactorSum(Value place, Value sum);
  LogicalResult storeChunk(Value row, Value column, ArrayRef<Value> sums,
                           bool isShifted) {
    return ProductResults(*frame, *code)
        .store(row, column, ProductSums{product, SmallVector<Value>(sums)},
               isShifted);
  }

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  const codegen::Product &product;
  const MultiplyUnit &unit;
  Tiling tiling;
  std::unique_ptr<KernelFrame> frame;
  std::unique_ptr<ThreadCode> code;
  Value memory, firstRow, firstColumn, part;
  SmallVector<MappedLaunch, 2> launches;
};
} // namespace

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

GemmOperand GemmMapper::operand(Value value, bool kContiguous, int64_t outer,
                                int64_t tileOuter, Value firstOuter) const {
  Value buffer = frame->argumentBuffer(value);
  int64_t stride = *dist::leadingDimension(cast<MemRefType>(buffer.getType()));
  TileShape shape = {getElementTypeOrSelf(value.getType()),
                     kContiguous,
                     outer,
                     product.k,
                     stride,
                     tileOuter,
                     tiling.k,
                     unit.layout(kContiguous)};
  return {shape, buffer, firstOuter};
}

LogicalResult GemmMapper::startFrame(StringRef suffix) {
  FrameOptions options;
  options.scratchBytes = scratchBytes();
  options.suffix = suffix.str();
  frame = std::make_unique<KernelFrame>(kernel, module, options);
  code = std::make_unique<ThreadCode>(frame->builder, frame->loc);
  return frame->emitScalars();
}

/// Chooses the tile of the result that this block computes. Tiles are divided
/// into bands of a few rows of tiles. Blocks with adjacent indices compute the
/// tiles of a band, column by column. Blocks that run at the same time
/// therefore read the same rows and columns of the operands, and the L2 cache
/// serves most of their reads.
void GemmMapper::placeBlock() {
  ThreadCode &c = *code;
  int64_t band = std::min<int64_t>(8, tilesM());
  Value block = c.blockId(mlir::gpu::Dimension::x);
  Value firstTile = c.mul(c.div(block, band * tilesN()), band);
  Value inBand = c.rem(block, band * tilesN());
  Value height = c.constant(band);
  if (tilesM() % band) {
    Value left = c.sub(c.constant(tilesM()), firstTile);
    height = c.create<arith::MinSIOp>(left, height);
  }
  firstRow = c.mul(c.add(firstTile, c.rem(inBand, height)), tiling.m);
  firstColumn = c.mul(c.div(inBand, height), tiling.n);
}

/// Emits all steps along k and returns this thread's sums of the product. The
/// kernel may also sum an operand along k, for the gradient of a bias. Then
/// only the blocks at one edge of the grid sum the operand, since together
/// these blocks load each tile of the operand once. They run a second copy of
/// the loop, which multiplies and also sums the operand.
FailureOr<SmallVector<Value>> GemmMapper::emitSteps(const GemmBlock &block,
                                                    GemmLoop &loop,
                                                    Multiplier &multiplier) {
  ThreadCode &c = *code;
  OpBuilder &b = c.builder;
  Value elements = c.constant(product.k);
  if (part)
    elements = c.sub(elements, c.mul(part, tiling.partK));
  loop.start(elements);
  if (product.sums.empty())
    return loop.emit(multiplier, nullptr);
  int64_t numProducts = multiplier.numSums();
  SmallVector<Type> types(numProducts, b.getF32Type());
  Value isEdge = c.less(product.sumsA ? firstColumn : firstRow, 1);
  auto choice = b.create<scf::IfOp>(c.loc, types, isEdge, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  std::unique_ptr<TileSums> factorSums = unit.createSums(c, block);
  SmallVector<Value> sums = loop.emit(multiplier, factorSums.get());
  if (failed(factorSums->forSums(
          ArrayRef(sums).drop_front(numProducts),
          [&](Value place, Value sum) { return emitFactorSum(place, sum); })))
    return failure();
  b.create<scf::YieldOp>(c.loc, ArrayRef(sums).take_front(numProducts));
  b.setInsertionPointToStart(choice.elseBlock());
  b.create<scf::YieldOp>(c.loc, loop.emit(multiplier, nullptr));
  return SmallVector<Value>(choice.getResults());
}

LogicalResult GemmMapper::emitProduct() {
  if (failed(startFrame("")))
    return failure();
  ThreadCode &c = *code;
  memory = c.sharedMemory();
  placeBlock();
  Value firstK = c.constant(0);
  if (tiling.parts > 1) {
    part = c.blockId(mlir::gpu::Dimension::z);
    firstK = c.mul(part, tiling.partK);
  }
  bool checksK = product.k % tiling.k || product.k % tiling.partK;
  GemmBlock block = {
      tiling,
      operand(product.a, !product.transA, product.m, tiling.m, firstRow),
      operand(product.b, product.transB, product.n, tiling.n, firstColumn),
      firstK,
      checksK,
      product.sumsA,
      memory};
  std::unique_ptr<GemmLoop> loop = unit.createLoop(c, block);
  std::unique_ptr<Multiplier> multiplier = unit.createMultiplier(c, block);
  FailureOr<SmallVector<Value>> sums = emitSteps(block, *loop, *multiplier);
  if (failed(sums))
    return failure();
  // Before the sums overwrite the last tiles in shared memory, all warps must
  // have read these tiles.
  c.barrier();
  SumTile tile(c, tiling, memory);
  multiplier->forSums(*sums,
                      [&](Value row, Value column, ArrayRef<Value> some) {
                        tile.put(row, column, some);
                      });
  c.barrier();
  if (failed(emitTile(tile)))
    return failure();
  frame->finish({tilesM() * tilesN(), 1, tiling.parts}, tiling.threads(),
                block.sharedBytes());
  // Two blocks on a multiprocessor hide each other's latency. This attribute
  // makes ptxas limit registers such that two blocks fit.
  frame->func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                       c.builder.getI32IntegerAttr(2));
  launches.push_back(frame->launch());
  return success();
}

//===----------------------------------------------------------------------===//
// The results
//===----------------------------------------------------------------------===//

/// Emits code that reads the block's sums of products row by row, applies the
/// epilogue and stores the kernel's results. With split-K, the code stores
/// partial sums instead. Each thread handles some chunks of adjacent columns.
LogicalResult GemmMapper::emitTile(SumTile &tile) {
  ThreadCode &c = *code;
  OpBuilder &b = c.builder;
  int64_t most = part ? 4 : resultChunk(kernel, product);
  // With `isOdd`, the length of a row is no multiple of the chunk's width. With
  // `isShifted`, each chunk then begins at an aligned address, which is a
  // different column in each row. Only long rows are shifted. Rows with padding
  // need no shift, since each of them begins at an aligned address.
  bool isOdd = !part && product.n % most;
  bool isAligned = isOdd && resultsArePadded();
  bool isShifted = isOdd && !isAligned && product.n >= tiling.n;
  int64_t width = isShifted || isAligned ? most : widestChunk(product, most);
  int64_t perRow = tiling.n / width + isShifted;
  auto loop =
      b.create<scf::ForOp>(c.loc, c.threadId(), c.constant(tiling.m * perRow),
                           c.constant(tiling.threads()));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value chunk = loop.getInductionVar(), row = c.div(chunk, perRow);
  Value column = c.mul(c.rem(chunk, perRow), width);
  InsideIf inside(c, c.less(c.add(firstRow, row), product.m));
  if (isShifted || isAligned)
    return emitOddChunk(tile, row, column, width, isShifted);
  return emitTileChunk(tile, row, column, width);
}

bool GemmMapper::resultsArePadded() {
  return llvm::any_of(frame->allOutputs(), [&](unsigned output) {
    auto type = cast<MemRefType>(frame->outputBuffer(output).getType());
    return !type.getLayout().isIdentity();
  });
}

/// Emits the results of a chunk (adjacent columns) in a row of the tile. Emits
/// nothing for a chunk after the end of the result's row.
LogicalResult GemmMapper::emitTileChunk(SumTile &tile, Value inTileRow,
                                        Value inTileColumn, int64_t width) {
  ThreadCode &c = *code;
  Value row = c.add(firstRow, inTileRow);
  Value column = c.add(firstColumn, inTileColumn);
  InsideIf inside(c, c.less(column, product.n));
  SmallVector<Value> sums = tile.get(inTileRow, inTileColumn, width);
  if (!part)
    return storeChunk(row, column, sums, /*isShifted=*/false);
  c.storeVector(sums, partPointer(part, row, column));
  return success();
}

/// Emits a chunk (`width` adjacent columns) of a row whose length is no
/// multiple of `width`. Without `isShifted`, the chunk begins at `column`. With
/// it, the chunk begins up to `width` columns earlier, where the result's
/// memory is aligned. If the chunk crosses the beginning or the end of the
/// tile's row, its elements are emitted one by one.
LogicalResult GemmMapper::emitOddChunk(SumTile &tile, Value row, Value column,
                                       int64_t width, bool isShifted) {
  ThreadCode &c = *code;
  OpBuilder &b = c.builder;
  Value inResult = c.add(firstRow, row), first = column;
  if (isShifted) {
    int64_t missing = width - product.n % width;
    Value head = c.rem(c.mul(c.rem(inResult, width), missing), width);
    first = c.add(c.add(column, head), -width);
  }
  Value end = c.create<arith::MinSIOp>(
      c.sub(c.constant(product.n), firstColumn), c.constant(tiling.n));
  Value isWhole = c.both(c.less(c.constant(-1), first),
                         c.less(c.add(first, width - 1), end));
  auto choice = b.create<scf::IfOp>(c.loc, isWhole, /*withElse=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(choice.thenBlock());
  SmallVector<Value> sums;
  for (int64_t i = 0; i < width; ++i)
    llvm::append_range(sums, tile.get(row, c.add(first, i), 1));
  if (failed(storeChunk(inResult, c.add(firstColumn, first), sums, isShifted)))
    return failure();
  b.setInsertionPointToStart(choice.elseBlock());
  auto loop = b.create<scf::ForOp>(c.loc, c.constant(0), c.constant(width),
                                   c.constant(1));
  b.setInsertionPointToStart(loop.getBody());
  Value at = c.add(first, loop.getInductionVar());
  InsideIf inside(c, c.both(c.less(c.constant(-1), at), c.less(at, end)));
  return storeChunk(inResult, c.add(firstColumn, at), tile.get(row, at, 1),
                    /*isShifted=*/false);
}

/// The address, in scratch memory, of the product's partial sum at (`row`,
/// `column`) over part `inPart` of k.
Value GemmMapper::partPointer(Value inPart, Value row, Value column) {
  ThreadCode &c = *code;
  Value all = frame->scratch(0, {tiling.parts, product.m, product.n},
                             c.builder.getF32Type());
  Value rows = c.add(c.mul(c.wide(inPart), product.m), c.wide(row));
  Value element = c.add(c.mul(rows, product.n), c.wide(column));
  return c.at(c.globalPointer(all), c.mul(element, 4));
}

/// The address, in scratch memory, of the sum of one row of A or one column of
/// B over one part of k. `place` is the index of the row or column, and
/// `inPart` the index of the part. In scratch memory, these sums lie after the
/// partial sums of the product.
Value GemmMapper::factorPartPointer(Value inPart, Value place) {
  ThreadCode &c = *code;
  Value all =
      frame->scratch(tiling.parts * product.m * product.n * 4,
                     {tiling.parts, numFactorSums()}, c.builder.getF32Type());
  Value element = c.add(c.mul(inPart, numFactorSums()), place);
  return c.at(c.globalPointer(all), c.mul(c.wide(element), 4));
}

/// Returns `width` adjacent elements of the product. Each is computed by adding
/// its partial sums in order.
SmallVector<Value>
GemmMapper::addParts(int64_t width, llvm::function_ref<Value(Value)> pointer) {
  ThreadCode &c = *code;
  SmallVector<Value> sums;
  for (int64_t i = 0; i < tiling.parts; ++i) {
    auto values = c.elements(
        c.loadVector(c.builder.getF32Type(), width, pointer(c.constant(i))));
    for (auto [at, value] : llvm::enumerate(values))
      if (i == 0)
        sums.push_back(value);
      else
        sums[at] = c.create<arith::AddFOp>(sums[at], value);
  }
  return sums;
}

/// Emits the second launch of split-K, which adds the partial sums of all parts
/// of k. Each thread computes adjacent columns of a row of the result, or one
/// sum of an operand along k.
LogicalResult GemmMapper::emitSumOfParts() {
  constexpr int64_t threads = 256;
  if (failed(startFrame("_sum")))
    return failure();
  ThreadCode &c = *code;
  // The width is that of one access to partial sums, which are f32.
  int64_t width = widestChunk(product, accessBytes / 4),
          perRow = product.n / width;
  int64_t chunks = product.m * perRow;
  Value chunk =
      c.add(c.mul(c.blockId(mlir::gpu::Dimension::x), threads), c.threadId());
  {
    InsideIf inside(c, c.less(chunk, chunks));
    Value row = c.div(chunk, perRow);
    Value column = c.mul(c.rem(chunk, perRow), width);
    auto pointer = [&](Value i) { return partPointer(i, row, column); };
    if (failed(storeChunk(row, column, addParts(width, pointer),
                          /*isShifted=*/false)))
      return failure();
  }
  if (numFactorSums() > 0) {
    Value place = c.add(chunk, -chunks);
    InsideIf inside(c, c.both(c.less(c.constant(-1), place),
                              c.less(place, numFactorSums())));
    auto pointer = [&](Value i) { return factorPartPointer(i, place); };
    if (failed(storeFactorSum(place, addParts(1, pointer)[0])))
      return failure();
  }
  frame->finish({static_cast<int64_t>(
                    llvm::divideCeil(chunks + numFactorSums(), threads))},
                threads);
  launches.push_back(frame->launch());
  return success();
}

/// Stores this block's sum, along k, of one row or column of an operand: as a
/// result, or with split-K as a partial sum. `inTile` is the index of the row
/// or column in the tile.
LogicalResult GemmMapper::emitFactorSum(Value inTile, Value sum) {
  ThreadCode &c = *code;
  Value place = c.add(product.sumsA ? firstRow : firstColumn, inTile);
  InsideIf inside(c, c.less(place, numFactorSums()));
  if (!part)
    return storeFactorSum(place, sum);
  c.store(sum, factorPartPointer(part, place));
  return success();
}

/// Stores `sum`, the finished sum along k of the row or column `place` of an
/// operand. Each result of an nn.sum_rows is stored: it is `sum` plus the
/// element of the operation's `init`, if the operation has this operand.
LogicalResult GemmMapper::storeFactorSum(Value place, Value sum) {
  KernelFrame &f = *frame;
  Chunk chunk = f.chunk(code->toIndex(place), 1);
  ElementEmitter::Scope scope(f.emitter, chunk);
  for (unsigned i = 0; i < f.numOutputs(); ++i) {
    if (!product.isSum(f.yielded(i)))
      continue;
    Value total = sum;
    if (Value init = f.yielded(i).getDefiningOp<nn::SumRowsOp>().getInit()) {
      FailureOr<Value> first = f.emitter.elements(init, {});
      if (failed(first))
        return failure();
      total = code->create<arith::AddFOp>(total, code->widen(*first));
    }
    f.store(code->narrow(total, getElementTypeOrSelf(f.yielded(i).getType())),
            f.outputBuffer(i), chunk.base);
  }
  return success();
}

MappedKernel GemmMapper::run() {
  bool isDone = succeeded(emitProduct());
  if (isDone && tiling.parts > 1)
    isDone = succeeded(emitSumOfParts());
  if (isDone)
    return {launches, scratchBytes(), ""};
  for (const MappedLaunch &launch : launches)
    launch.func->erase();
  std::string reason = frame->emitter.reason();
  frame->func.erase();
  return MappedKernel::no(reason);
}

FailureOr<MappedKernel> mapGemm(planir::KernelOp kernel,
                                mlir::gpu::GPUModuleOp module,
                                const Chip &chip) {
  FailureOr<SmallVector<codegen::Product, 1>> products =
      codegen::describeProducts(kernel);
  if (failed(products))
    return failure();
  if (products->front().bits > 0)
    return mapPackedProducts(kernel, module, *products, chip);
  FailureOr<codegen::Product> product = codegen::soleProduct(kernel, *products);
  if (failed(product))
    return failure();
  return GemmMapper(kernel, module, *product, chip).run();
}

} // namespace heddle::gpu
