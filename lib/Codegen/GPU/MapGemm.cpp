//===- MapGemm.cpp - A tensor-core matrix product with its epilogue -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block computes one tile of the output. Tiles of both operands go through
// two stages of workgroup memory: while the warps multiply one (ldmatrix, then
// mma.sync m16n8k16 in bf16 with f32 sums), the next is under way (cp.async).
// Rows of workgroup memory are padded by 16 bytes, so that the eight rows of an
// ldmatrix tile lie in different banks. What is outside of the operands is
// filled with zeros; what is outside of the output is not stored.
//
//===----------------------------------------------------------------------===//

#include "KernelFrame.h"
#include "dialects/NN/NNDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// The shape of one mma.sync.
constexpr int64_t mmaM = 16, mmaN = 8, mmaK = 16;
/// Elements of bf16 in one access.
constexpr int64_t accessElements = accessBytes / 2;
constexpr int64_t stages = 2;

/// The tile of a block and how its warps divide it.
struct Tiling {
  int64_t m, n, k, warpsM, warpsN;

  int64_t threads() const { return warpsM * warpsN * warpSize; }
  int64_t warpM() const { return m / warpsM; }
  int64_t warpN() const { return n / warpsN; }
  int64_t tilesM() const { return warpM() / mmaM; }
  int64_t tilesN() const { return warpN() / mmaN; }
};
constexpr Tiling largeTiling = {128, 128, 32, 2, 4};
constexpr Tiling smallTiling = {64, 64, 32, 2, 2};
/// With fewer blocks than this a large chip is not filled: smaller tiles.
constexpr int64_t fewBlocks = 128;

/// An operand: a matrix in global memory and its tiles in workgroup memory.
struct Panel {
  Value global;
  int64_t rows, columns;         ///< Of the whole matrix.
  int64_t tileRows, tileColumns; ///< Of a tile.
  Value tiles;                   ///< [stage, row, column + padding].

  /// Whether every access of eight elements is aligned and wholly inside.
  bool isAligned() const { return columns % accessElements == 0; }
};

class GemmMapper {
public:
  GemmMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module)
      : kernel(kernel), module(module) {}

  MappedKernel run();

private:
  LogicalResult match();
  void chooseTiling();
  Panel makePanel(Value tensor, int64_t rows, int64_t tileRows,
                  int64_t tileColumns);
  void emitThreadIndices();
  Value copyTiles(Value kBase, Value stage);
  void copyTile(const Panel &panel, Value rowBase, Value columnBase,
                Value stage, SmallVectorImpl<Value> &tokens);
  Value inside(const Panel &panel, Value row, Value column);
  Value loadClamped(const Panel &panel, Value row, Value column);
  SmallVector<Value> emitProduct();
  Value rowPair(Value fragment, int64_t first);
  void multiplyStage(Value stage, MutableArrayRef<Value> sums);
  Value leftFragment(Value stage, int64_t tile, int64_t k);
  Value rightFragments(Value stage, int64_t pair, int64_t k);
  LogicalResult emitEpilogue(ArrayRef<Value> sums);
  LogicalResult storeRow(Value sum, int64_t half, int64_t tileM, int64_t tileN);
  LogicalResult storeChunk(Chunk chunk, Value row, ArrayRef<Value> sums);
  FailureOr<Value> finishSum(Value sum, Value column);
  LogicalResult fail(const Twine &why);

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  std::unique_ptr<KernelFrame> frame;
  nn::LinearOp linear;
  int64_t m = 1, n = 0, k = 0;
  Tiling tiling = largeTiling;
  Panel left, right;
  Value thread, lane, warpRow, warpColumn, blockRow, blockColumn;
  std::string reason;
};
} // namespace

LogicalResult GemmMapper::fail(const Twine &why) {
  if (reason.empty())
    reason = why.str();
  return failure();
}

LogicalResult GemmMapper::match() {
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto candidate = dyn_cast<nn::LinearOp>(op);
    if (candidate && linear)
      return fail("two products in one kernel");
    if (candidate)
      linear = candidate;
    else if (isa<nn::NNDialect>(op.getDialect()))
      return fail(op.getName().getStringRef());
  }
  if (!linear)
    return fail("no nn.linear");
  auto input = cast<RankedTensorType>(linear.getInput().getType());
  auto weight = cast<RankedTensorType>(linear.getWeight().getType());
  if (!input.getElementType().isBF16() || !weight.getElementType().isBF16())
    return fail("nn.linear whose operands are not bf16");
  if (!isa<BlockArgument>(linear.getInput()) ||
      !isa<BlockArgument>(linear.getWeight()))
    return fail("nn.linear of a value computed in the kernel");
  for (Type type : kernel.getResultTypes())
    if (cast<RankedTensorType>(type).getShape() !=
        cast<RankedTensorType>(linear.getType()).getShape())
      return fail("a result of another shape than the product's");
  k = input.getShape().back();
  m = input.getNumElements() / k;
  n = weight.getDimSize(linear.getTransposed() ? 0 : 1);
  return success();
}

void GemmMapper::chooseTiling() {
  int64_t blocks =
      llvm::divideCeil(m, largeTiling.m) * llvm::divideCeil(n, largeTiling.n);
  tiling = blocks < fewBlocks ? smallTiling : largeTiling;
}

/// `tensor` as a matrix of `rows` rows, with its place in workgroup memory.
Panel GemmMapper::makePanel(Value tensor, int64_t rows, int64_t tileRows,
                            int64_t tileColumns) {
  KernelFrame &f = *frame;
  Value buffer = f.argumentBuffer(tensor);
  auto type = cast<MemRefType>(buffer.getType());
  Type element = type.getElementType();
  int64_t columns = type.getNumElements() / rows;
  if (type.getRank() != 2) {
    auto matrix = MemRefType::get(
        {rows, columns}, element,
        StridedLayoutAttr::get(f.builder.getContext(), 0, {columns, 1}));
    buffer = f.builder.create<memref::ReinterpretCastOp>(
        f.loc, matrix, buffer, /*offset=*/0, ArrayRef<int64_t>{rows, columns},
        ArrayRef<int64_t>{columns, 1});
  }
  Value tiles =
      f.addWorkgroup({stages, tileRows, tileColumns + accessElements}, element);
  return {buffer, rows, columns, tileRows, tileColumns, tiles};
}

void GemmMapper::emitThreadIndices() {
  KernelFrame &f = *frame;
  thread = f.threadId();
  lane = f.rem(thread, warpSize);
  Value warp = f.div(thread, warpSize);
  warpRow = f.mul(f.rem(warp, tiling.warpsM), tiling.warpM());
  warpColumn = f.mul(f.div(warp, tiling.warpsM), tiling.warpN());
  blockRow = f.mul(f.blockId(mlir::gpu::Dimension::y), tiling.m);
  blockColumn = f.mul(f.blockId(mlir::gpu::Dimension::x), tiling.n);
}

//===----------------------------------------------------------------------===//
// Global to workgroup memory
//===----------------------------------------------------------------------===//

/// Whether (row, column) is an element of the matrix.
Value GemmMapper::inside(const Panel &panel, Value row, Value column) {
  KernelFrame &f = *frame;
  Value inRow = f.compare(arith::CmpIPredicate::ult, row, panel.rows);
  Value inColumn = f.compare(arith::CmpIPredicate::ult, column, panel.columns);
  return f.builder.create<arith::AndIOp>(f.loc, inRow, inColumn);
}

/// The element at (row, column), zero outside.
Value GemmMapper::loadClamped(const Panel &panel, Value row, Value column) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  Value isIn = inside(panel, row, column);
  Value zero = f.constant(0);
  Value at[] = {b.create<arith::SelectOp>(f.loc, isIn, row, zero),
                b.create<arith::SelectOp>(f.loc, isIn, column, zero)};
  Value value = b.create<memref::LoadOp>(f.loc, panel.global, at);
  Value outside =
      b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(value.getType()));
  return b.create<arith::SelectOp>(f.loc, isIn, value, outside);
}

/// Starts the copy of the tile at (rowBase, columnBase), each thread its part.
void GemmMapper::copyTile(const Panel &panel, Value rowBase, Value columnBase,
                          Value stage, SmallVectorImpl<Value> &tokens) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  int64_t perRow = panel.tileColumns / accessElements;
  int64_t accesses = panel.tileRows * perRow;
  for (int64_t first = 0; first < accesses; first += tiling.threads()) {
    Value access = f.add(thread, first);
    Value tileRow = f.div(access, perRow);
    Value tileColumn = f.mul(f.rem(access, perRow), accessElements);
    Value row = f.add(rowBase, tileRow);
    Value column = f.add(columnBase, tileColumn);
    Value target[] = {stage, tileRow, tileColumn};
    if (!panel.isAligned()) {
      SmallVector<Value> elements;
      for (int64_t i = 0; i < accessElements; ++i)
        elements.push_back(loadClamped(panel, row, f.add(column, i)));
      f.store(elements, panel.tiles, target);
      continue;
    }
    Value isIn = inside(panel, row, column);
    Value zero = f.constant(0);
    Value source[] = {b.create<arith::SelectOp>(f.loc, isIn, row, zero),
                      b.create<arith::SelectOp>(f.loc, isIn, column, zero)};
    Value count = b.create<arith::SelectOp>(f.loc, isIn,
                                            f.constant(accessElements), zero);
    tokens.push_back(b.create<nvgpu::DeviceAsyncCopyOp>(
        f.loc, nvgpu::DeviceAsyncTokenType::get(b.getContext()), panel.tiles,
        target, panel.global, source, b.getIndexAttr(accessElements), count,
        b.getUnitAttr()));
  }
}

/// Starts the copies of both tiles for columns `kBase` on of the left operand.
Value GemmMapper::copyTiles(Value kBase, Value stage) {
  SmallVector<Value> tokens;
  copyTile(left, blockRow, kBase, stage, tokens);
  if (linear.getTransposed())
    copyTile(right, blockColumn, kBase, stage, tokens);
  else
    copyTile(right, kBase, blockColumn, stage, tokens);
  OpBuilder &b = frame->builder;
  return b.create<nvgpu::DeviceAsyncCreateGroupOp>(
      frame->loc, nvgpu::DeviceAsyncTokenType::get(b.getContext()), tokens);
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

/// A 16 x 16 tile of the left operand. The four 8 x 8 matrices are rows 0-7
/// and 8-15 of columns 0-7, then of columns 8-15: lane i gives row i mod 16.
Value GemmMapper::leftFragment(Value stage, int64_t tile, int64_t kStart) {
  KernelFrame &f = *frame;
  Value row = f.add(f.add(warpRow, f.rem(lane, 16)), tile * mmaM);
  Value column = f.add(f.mul(f.div(lane, 16), 8), kStart);
  auto type = VectorType::get({4, 2}, f.builder.getBF16Type());
  return f.builder.create<nvgpu::LdMatrixOp>(f.loc, type, left.tiles,
                                             ValueRange{stage, row, column},
                                             /*transpose=*/false, 4);
}

/// Two 16 x 8 tiles of the right operand, one after the other. Stored [k, n] it
/// is transposed on the way; stored [n, k] it has the order that mma wants.
Value GemmMapper::rightFragments(Value stage, int64_t pair, int64_t kStart) {
  KernelFrame &f = *frame;
  bool transposed = linear.getTransposed();
  Value column = f.add(warpColumn, pair * 2 * mmaN);
  Value at[3] = {stage};
  if (transposed) {
    Value inTile = f.add(f.rem(lane, 8), f.mul(f.div(lane, 16), 8));
    at[1] = f.add(column, inTile);
    at[2] = f.add(f.mul(f.rem(f.div(lane, 8), 2), 8), kStart);
  } else {
    at[1] = f.add(f.rem(lane, 16), kStart);
    at[2] = f.add(column, f.mul(f.div(lane, 16), 8));
  }
  auto type = VectorType::get({4, 2}, f.builder.getBF16Type());
  return f.builder.create<nvgpu::LdMatrixOp>(f.loc, type, right.tiles,
                                             ValueRange(at),
                                             /*transpose=*/!transposed, 4);
}

/// Rows `first` and `first` + 1 of a fragment.
Value GemmMapper::rowPair(Value fragment, int64_t first) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  auto type = VectorType::get({2, 2}, b.getBF16Type());
  Value pair = b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(type));
  for (int64_t row : {0, 1})
    pair = b.create<vector::InsertOp>(
        f.loc, b.create<vector::ExtractOp>(f.loc, fragment, first + row), pair,
        row);
  return pair;
}

void GemmMapper::multiplyStage(Value stage, MutableArrayRef<Value> sums) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  for (int64_t kStart = 0; kStart < tiling.k; kStart += mmaK) {
    SmallVector<Value> leftTiles, rightTiles;
    for (int64_t tile = 0; tile < tiling.tilesM(); ++tile)
      leftTiles.push_back(leftFragment(stage, tile, kStart));
    for (int64_t pair = 0; pair < tiling.tilesN() / 2; ++pair) {
      Value both = rightFragments(stage, pair, kStart);
      for (int64_t half : {0, 2})
        rightTiles.push_back(rowPair(both, half));
    }
    for (auto [row, leftTile] : llvm::enumerate(leftTiles))
      for (auto [column, rightTile] : llvm::enumerate(rightTiles)) {
        Value &sum = sums[row * tiling.tilesN() + column];
        sum = b.create<nvgpu::MmaSyncOp>(f.loc, leftTile, rightTile, sum,
                                         ArrayRef<int64_t>{mmaM, mmaN, mmaK});
      }
  }
}

/// The loop over K. Returns this thread's 2 x 2 sums of each mma tile.
SmallVector<Value> GemmMapper::emitProduct() {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  auto sumType = VectorType::get({2, 2}, b.getF32Type());
  Value zero = b.create<arith::ConstantOp>(f.loc, b.getZeroAttr(sumType));
  SmallVector<Value> inits(tiling.tilesM() * tiling.tilesN(), zero);
  inits.push_back(copyTiles(f.constant(0), f.constant(0)));
  auto loop = b.create<scf::ForOp>(f.loc, f.constant(0), f.constant(k),
                                   f.constant(tiling.k), inits);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> sums(loop.getRegionIterArgs().drop_back());
  b.create<nvgpu::DeviceAsyncWaitOp>(f.loc, loop.getRegionIterArgs().back(),
                                     b.getI32IntegerAttr(0));
  // This tile is there for all threads, and none still reads the other stage.
  b.create<mlir::gpu::BarrierOp>(f.loc);
  Value kBase = loop.getInductionVar();
  Value stage = f.rem(f.div(kBase, tiling.k), stages);
  Value next = f.add(kBase, tiling.k);
  Value token = copyTiles(next, f.rem(f.div(next, tiling.k), stages));
  multiplyStage(stage, sums);
  sums.push_back(token);
  b.create<scf::YieldOp>(f.loc, sums);
  return SmallVector<Value>(loop.getResults().drop_back());
}

//===----------------------------------------------------------------------===//
// The epilogue
//===----------------------------------------------------------------------===//

LogicalResult GemmMapper::emitEpilogue(ArrayRef<Value> sums) {
  for (int64_t tileM = 0; tileM < tiling.tilesM(); ++tileM)
    for (int64_t tileN = 0; tileN < tiling.tilesN(); ++tileN)
      for (int64_t half : {0, 1})
        if (failed(storeRow(sums[tileM * tiling.tilesN() + tileN], half, tileM,
                            tileN)))
          return failure();
  return success();
}

/// Stores the two adjacent elements that this thread has in one row of a tile.
LogicalResult GemmMapper::storeRow(Value sum, int64_t half, int64_t tileM,
                                   int64_t tileN) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  Value row = f.add(f.add(f.add(blockRow, warpRow), f.div(lane, 4)),
                    tileM * mmaM + half * 8);
  Value column =
      f.add(f.add(f.add(blockColumn, warpColumn), f.mul(f.rem(lane, 4), 2)),
            tileN * mmaN);
  SmallVector<Value> values;
  for (int64_t i : {0, 1})
    values.push_back(
        b.create<vector::ExtractOp>(f.loc, sum, ArrayRef<int64_t>{half, i}));
  // An odd row length breaks the alignment of pairs.
  int64_t width = n % 2 ? 1 : 2;
  for (int64_t i = 0; i < 2; i += width) {
    Value start = f.add(column, i);
    Value isIn = b.create<arith::AndIOp>(
        f.loc, f.compare(arith::CmpIPredicate::ult, row, m),
        f.compare(arith::CmpIPredicate::ult, start, n));
    auto guarded = b.create<scf::IfOp>(f.loc, isIn);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(guarded.thenBlock());
    if (failed(storeChunk(f.chunk(start, width), row,
                          ArrayRef<Value>(values).slice(i, width))))
      return failure();
  }
  return success();
}

/// Adds the bias and rounds to the type of nn.linear's result.
FailureOr<Value> GemmMapper::finishSum(Value sum, Value column) {
  KernelFrame &f = *frame;
  OpBuilder &b = f.builder;
  if (Value bias = linear.getBias()) {
    FailureOr<Value> value = f.emitter.element(bias, column);
    if (failed(value))
      return failure();
    Value wide = *value;
    if (!wide.getType().isF32())
      wide = b.create<arith::ExtFOp>(f.loc, b.getF32Type(), wide);
    sum = b.create<arith::AddFOp>(f.loc, sum, wide);
  }
  Type type = getElementTypeOrSelf(linear.getType());
  if (type.isF32())
    return sum;
  return b.create<arith::TruncFOp>(f.loc, type, sum).getResult();
}

LogicalResult GemmMapper::storeChunk(Chunk chunk, Value row,
                                     ArrayRef<Value> sums) {
  KernelFrame &f = *frame;
  f.emitter.enterScope(chunk);
  auto shape = cast<RankedTensorType>(linear.getType()).getShape();
  SmallVector<Value> leading = f.delinearize(row, shape.drop_back());
  SmallVector<Value> products;
  for (auto [sum, column] : llvm::zip(sums, chunk.columns)) {
    FailureOr<Value> product = finishSum(sum, column);
    if (failed(product))
      return fail(f.emitter.reason());
    products.push_back(*product);
  }
  f.emitter.bind(linear.getResult(), [&](ElementEmitter::Indices indices) {
    const auto *column = llvm::find(chunk.columns, indices.back());
    if (column == chunk.columns.end() ||
        indices.drop_back() != ArrayRef<Value>(leading))
      return Value();
    return products[column - chunk.columns.begin()];
  });
  SmallVector<SmallVector<Value>> elements(f.numOutputs());
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    for (Value column : chunk.columns) {
      SmallVector<Value> indices(leading);
      indices.push_back(column);
      FailureOr<Value> value = f.emitter.element(f.yielded(i), indices);
      if (failed(value))
        return fail(f.emitter.reason());
      elements[i].push_back(*value);
    }
  SmallVector<Value> start(leading);
  start.push_back(chunk.base);
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    f.store(elements[i], f.outputBuffer(i), start);
  f.emitter.enterScope();
  return success();
}

MappedKernel GemmMapper::run() {
  if (failed(match()))
    return MappedKernel::no(reason);
  chooseTiling();
  frame = std::make_unique<KernelFrame>(kernel, module, FrameOptions());
  left = makePanel(linear.getInput(), m, tiling.m, tiling.k);
  right = linear.getTransposed()
              ? makePanel(linear.getWeight(), n, tiling.n, tiling.k)
              : makePanel(linear.getWeight(), k, tiling.k, tiling.n);
  emitThreadIndices();
  if (failed(frame->emitScalars()) || failed(emitEpilogue(emitProduct()))) {
    frame->func.erase();
    return MappedKernel::no(reason.empty() ? frame->emitter.reason() : reason);
  }
  frame->finish({static_cast<int64_t>(llvm::divideCeil(n, tiling.n)),
                 static_cast<int64_t>(llvm::divideCeil(m, tiling.m))},
                tiling.threads());
  return {{frame->launch()}};
}

MappedKernel mapGemm(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module) {
  return GemmMapper(kernel, module).run();
}

} // namespace heddle::gpu
