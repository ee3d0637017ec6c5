//===- AttentionMapper.cpp - Parts shared by attention's mappings ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements what attention's forward pass and gradient share on GPUs: sizes of
// blocks, masks, exponentials and stores.
//
//===----------------------------------------------------------------------===//

#include "AttentionMapper.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <limits>

using namespace mlir;

namespace heddle::gpu {

namespace {
constexpr int64_t maxWarps = 4;
constexpr int64_t maxColumns = 64;
/// The most bytes of workgroup memory that a block may use. Every supported
/// chip offers a block at least this many.
constexpr int64_t maxSharedBytes = 160 * 1024;
/// The most registers that a thread may use for tiles of sums and of products.
/// The thread needs its other registers for addresses and intermediate values.
constexpr int64_t maxRegisters = 160;
/// If a head has fewer features than this, the kernel gets a minimum of one
/// block per multiprocessor. Otherwise ptxas would spill registers, because it
/// would try to fit more blocks.
constexpr int64_t fewFeatures = 16;
} // namespace

/// The number of features of a head that a block sums at a time (a slice). It
/// is the whole head, unless registers cannot hold the sums of so many
/// features.
static int64_t sliceWidth(int64_t headDim) {
  constexpr int64_t most = 256, ofSlice = 128, unit = 32;
  if (headDim <= most)
    return headDim;
  return llvm::alignTo(
      llvm::divideCeil(headDim, llvm::divideCeil(headDim, ofSlice)), unit);
}

/// The integer type for indices of the kernel's tensors: i64 if a tensor has
/// more elements than an i32 can count, else i32.
static Type indexType(planir::KernelOp kernel) {
  auto isLarge = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor &&
           tensor.getNumElements() > std::numeric_limits<int32_t>::max();
  };
  bool needs64 = llvm::any_of(kernel.getArgumentTypes(), isLarge) ||
                 llvm::any_of(kernel.getResultTypes(), isLarge);
  return IntegerType::get(kernel.getContext(), needs64 ? 64 : 32);
}

AttentionMapper::AttentionMapper(planir::KernelOp kernel,
                                 mlir::gpu::GPUModuleOp module,
                                 nn::AttentionOpInterface op,
                                 const FrameOptions &options)
    : op(op), spec(op), f(kernel, module, options),
      i32(f.builder, f.loc, f.builder.getI32Type()),
      wide(f.builder, f.loc, indexType(kernel)),
      tiles(WarpTiles::create(f, spec.elementType, sliceWidth(spec.headDim))),
      visible(spec, i32,
              op.getSequenceShard() ? f.argumentScalar(op.getSequenceShard())
                                    : Value(),
              op.getRingStep() ? f.argumentScalar(op.getRingStep()) : Value()),
      orderScratch(spec, isa<nn::AttentionGradOp>(op)),
      slices(llvm::divideCeil(spec.headDim, sliceWidth(spec.headDim))) {}

/// The rows of a block are the queries or keys for which it computes results.
/// The columns are the keys or queries over which it loops. If a block sums the
/// features of a head in slices, workgroup memory holds two slices of the rows
/// and two of the columns (double buffering), whatever the number of tensors in
/// `needs`.
int64_t AttentionMapper::sharedBytesFor(const Needs &needs) const {
  int64_t rowBytes =
      tiles->leadingDimension() * dist::byteSize(spec.elementType);
  int64_t columnBytes = (isSliced() ? 1 : needs.columnTensors) * rowBytes +
                        needs.numbers * static_cast<int64_t>(sizeof(float));
  return (isSliced() ? 2 : needs.rowTensors) * rowsOfBlock() * rowBytes +
         2 * columns * columnBytes +
         listLength() * static_cast<int64_t>(sizeof(int32_t));
}

void AttentionMapper::chooseBlocks(const Needs &needs) {
  warps = std::min<int64_t>(maxWarps, llvm::divideCeil(spec.seq, warpRows));
  int64_t most = spec.elementType.isF32() ? maxColumns / 2 : maxColumns;
  columns = std::min<int64_t>(most, llvm::alignTo(spec.seq, warpColumns));
  if (spec.block) {
    // A thread block has rows of one or more whole blocks of the layout, or of
    // a part of one, and so has a tile columns. If features are in slices, all
    // warps wait for each other within a tile, so that none can leave out what
    // others see: then all rows see the same blocks of columns.
    int64_t warpsOfBlock = spec.block / warpRows;
    warps = warps > warpsOfBlock && !isSliced()
                ? static_cast<int64_t>(llvm::PowerOf2Ceil(warps))
                : std::min(warps, warpsOfBlock);
    columns = static_cast<int64_t>(llvm::PowerOf2Ceil(columns));
  }
  // A warp's tile has 16 rows, and each of its 32 threads holds 1/32 of the
  // tile. If features are summed in slices, registers hold one more tile: the
  // product of the current slice, beside the sum of the products of earlier
  // slices.
  int64_t products = needs.products + isSliced();
  auto registers = [&] {
    return (needs.sums * tiles->width() + products * columns) / 2;
  };
  int64_t random = spec.p > 0 ? needs.random : 0;
  while (columns > warpColumns && (registers() + random > maxRegisters ||
                                   sharedBytesFor(needs) > maxSharedBytes))
    columns = llvm::alignTo(columns / 2, warpColumns);
  while (warps > 1 && sharedBytesFor(needs) > maxSharedBytes)
    warps = llvm::divideCeil(warps, 2);
  // Left operands of 16 bits need half as many registers as f32 sums of the
  // same number of elements. Drawing random numbers for dropout also needs
  // registers.
  int64_t fragments = needs.rowTensors * tiles->width() / 4;
  int64_t others = spec.p > 0 ? 32 : 0;
  keepsLeft = registers() + fragments + others <= maxRegisters;

  thread = i32.from(f.threadId());
  warp = i32.div(thread, warpSize);
  batch = i32.from(f.blockId(mlir::gpu::Dimension::z));
  headOfBlock = i32.from(f.blockId(mlir::gpu::Dimension::y));
  firstFeature = i32.constant(0);
  if (isSliced()) {
    firstFeature = i32.mul(i32.rem(headOfBlock, slices), tiles->width());
    headOfBlock = i32.div(headOfBlock, slices);
  }
  if (spec.block) {
    placeRows(needs.rowsAreKeys);
  } else {
    Value block = i32.from(f.blockId(mlir::gpu::Dimension::x));
    // Block 0 computes the last rows of a head. With a causal mask the queries
    // of the last rows see the most keys, so that the block with the longest
    // loop starts first.
    block = i32.sub(i32.constant(rowBlocks() - 1), block);
    firstRow = i32.mul(block, rowsOfBlock());
    firstOfWarp = i32.add(firstRow, i32.mul(warp, warpRows));
  }
  sharedMemory = f.builder.create<mlir::gpu::DynamicSharedMemoryOp>(
      f.loc, MemRefType::get({ShapedType::kDynamic}, f.builder.getI8Type(),
                             MemRefLayoutAttrInterface(),
                             mlir::gpu::AddressSpaceAttr::get(
                                 f.builder.getContext(),
                                 mlir::gpu::AddressSpace::Workgroup)));
  Value length;
  if (op.getLengths())
    length = f.builder.create<memref::LoadOp>(
        f.loc, f.argumentBuffer(op.getLengths()), i32.toIndex(batch));
  visible.beginRow(length);
}

int64_t AttentionMapper::rowBlocks() const {
  // Any of a layout's blocks may be in any place, so that all count as whole.
  if (spec.block)
    return llvm::divideCeil(orderScratch.blocks * spec.block, rowsOfBlock());
  return llvm::divideCeil(spec.seq, rowsOfBlock());
}

MappedLaunch AttentionMapper::finish(int64_t heads) {
  f.finish({rowBlocks(), heads * slices, spec.batch}, warps * warpSize,
           sharedBytes);
  // Without a minimum of blocks per multiprocessor, ptxas tries to fit more
  // blocks of a kernel with few features, and spills registers for that.
  if (spec.headDim < fewFeatures)
    f.func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    f.builder.getI32IntegerAttr(1));
  return f.launch();
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

std::array<Heads, 3> AttentionMapper::splitHeads(ValueRange memories) const {
  std::array<Heads, 3> heads;
  for (auto [i, place] : llvm::enumerate(spec.headColumns()))
    heads[i] = {memories[spec.packed ? 0 : i], place.offset, place.row};
  return heads;
}

Heads AttentionMapper::queryHeads(Value memory) const {
  return {memory, 0, spec.heads * spec.headDim};
}

SmallVector<Value> AttentionMapper::buffersOf(ValueRange arguments) const {
  return llvm::map_to_vector(
      arguments, [&](Value value) { return f.argumentBuffer(value); });
}

Value AttentionMapper::bufferOf(Value result) const {
  for (unsigned i = 0; i < f.numOutputs(); ++i)
    if (f.yielded(i) == result)
      return f.outputBuffer(i);
  return {};
}

Value AttentionMapper::indexOf(const Heads &heads, Value head, Value row,
                               Value column) {
  Value position = i32.add(i32.mul(batch, spec.seq), row);
  Value inRow =
      i32.add(i32.add(i32.mul(head, spec.headDim), column), heads.offset);
  return wide.toIndex(
      wide.add(wide.mul(wide.from(position), heads.row), wide.from(inRow)));
}

Value AttentionMapper::numberIndex(Value head, Value query) {
  Value row = i32.add(i32.mul(batch, spec.heads), head);
  return i32.toIndex(i32.add(i32.mul(row, spec.seq), query));
}

Value AttentionMapper::loadNumber(Value memory, Value index) {
  return f.builder.create<memref::LoadOp>(f.loc, memory, index);
}

//===----------------------------------------------------------------------===//
// Workgroup memory
//===----------------------------------------------------------------------===//

Value AttentionMapper::allocate(ArrayRef<int64_t> shape, Type type) {
  auto space = cast<MemRefType>(sharedMemory.getType()).getMemorySpace();
  auto memory =
      MemRefType::get(shape, type, MemRefLayoutAttrInterface(), space);
  Value view = f.builder.create<memref::ViewOp>(
      f.loc, memory, sharedMemory, f.constant(sharedBytes), ValueRange());
  sharedBytes += llvm::alignTo(dist::byteSize(memory), accessBytes);
  return view;
}

Value AttentionMapper::allocateRows(int64_t count) {
  return allocate({count, tiles->leadingDimension()}, spec.elementType);
}

Value AttentionMapper::allocateNumbers(int64_t count) {
  return allocate({count}, f.builder.getF32Type());
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

void AttentionMapper::ifThen(Value condition, function_ref<void()> body) {
  f.builder.create<scf::IfOp>(f.loc, condition,
                              [&](OpBuilder &b, Location loc) {
                                body();
                                b.create<scf::YieldOp>(loc);
                              });
}

void AttentionMapper::hide(WarpTile &tile, const ColumnTile &tileColumns,
                           Value isFull, ArrayRef<Value> bounds, bool below) {
  int64_t length = tileColumns.rangeLength();
  auto masked = f.builder.create<scf::IfOp>(
      f.loc, isFull,
      [&](OpBuilder &b, Location loc) {
        b.create<scf::YieldOp>(loc, tile.elements);
      },
      [&](OpBuilder &b, Location loc) {
        // All lanes of the warp take the same branch. The barrier keeps the
        // compiler from merging the branch that masks elements with the one
        // that does not. Merged code would compare every element even in tiles
        // without masked elements.
        b.create<NVVM::SyncWarpOp>(loc, i32.constant(-1));
        Value hidden = constant(-std::numeric_limits<float>::infinity());
        Values starts;
        for (Value first : tileColumns.ranges.firsts)
          starts.push_back(i32.add(first, tiles->firstColumn()));
        WarpTile result = tile;
        for (int64_t i = 0; i < tile.rows; ++i) {
          Values ends;
          for (Value start : starts)
            ends.push_back(i32.sub(bounds[i], start));
          for (int64_t j = 0; j < tile.columns; ++j) {
            int64_t column = tiles->columnOffset(j);
            Value isBelow =
                i32.less(i32.constant(column % length), ends[column / length]);
            result.at(i, j) = below
                                  ? i32.select(isBelow, tile.at(i, j), hidden)
                                  : i32.select(isBelow, hidden, tile.at(i, j));
          }
        }
        b.create<scf::YieldOp>(loc, result.elements);
      });
  tile.elements.assign(masked.getResults().begin(), masked.getResults().end());
}

void AttentionMapper::hideTooOldKeys(WarpTile &tile, const ColumnTile &keys) {
  Values begins;
  for (int64_t i = 0; i < tile.rows; ++i) {
    Value begin = visible.beginOf(i32.add(firstOfWarp, tiles->row(i)));
    if (!begin)
      return;
    begins.push_back(begin);
  }
  // The keys that the block's last query sees begin later than those of its
  // other queries. If even the last query sees all keys of the tile, no element
  // is masked.
  Value last = i32.add(firstMasked(), rowsMasked() - 1);
  Value isFull =
      i32.less(visible.beginOf(last), i32.add(keys.ranges.firsts.front(), 1));
  hide(tile, keys, isFull, begins, /*below=*/false);
}

Value AttentionMapper::capped(Value product) {
  Value share = mulF(product, constant(spec.scoreFactor()));
  return mulF(f.builder.create<math::TanhOp>(f.loc, share),
              constant(spec.capFactor()));
}

Value AttentionMapper::constant(double value) {
  return f.builder.create<arith::ConstantOp>(
      f.loc, f.builder.getF32FloatAttr(static_cast<float>(value)));
}

Value AttentionMapper::mulF(Value a, Value b) {
  return f.builder.create<arith::MulFOp>(f.loc, a, b);
}

Value AttentionMapper::addF(Value a, Value b) {
  return f.builder.create<arith::AddFOp>(f.loc, a, b);
}

Value AttentionMapper::fmaF(Value a, double b, Value c) {
  return f.builder.create<math::FmaOp>(f.loc, a, constant(b), c);
}

Value AttentionMapper::subF(Value a, Value b) {
  return f.builder.create<arith::SubFOp>(f.loc, a, b);
}

Value exp2(OpBuilder &builder, Location loc, Type type, Value t) {
  if (type.isF32())
    return codegen::exp2(builder, loc, t);
  // Results are rounded to fewer bits anyway.
  return builder
      .create<LLVM::CallIntrinsicOp>(
          loc, t.getType(), builder.getStringAttr("llvm.nvvm.ex2.approx.ftz.f"),
          ValueRange{t})
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void AttentionMapper::storeRows(const WarpTile &sums, ArrayRef<Value> factors,
                                const Heads &to, Value head, Value staging) {
  int64_t access = accessBytes / dist::byteSize(spec.elementType);
  if (tiles->chunk() < access && spec.headDim % access == 0) {
    storeWide(sums, factors, to, head, staging);
    return;
  }
  for (int64_t i = 0; i < sums.rows; ++i) {
    Value row = i32.add(firstOfWarp, tiles->row(i));
    ifThen(i32.less(row, spec.seq), [&] {
      for (int64_t j = 0; j < sums.columns; j += tiles->chunk())
        storeChunk(sums, i, j, factors[i], to, head, row);
    });
  }
}

/// Returns as many adjacent elements of a warp's sums as one store writes
/// (`WarpTiles::chunk`), in row `i` from column `j` on. They are multiplied by
/// `factor` and rounded to the type of the result.
AttentionMapper::Values AttentionMapper::rounded(const WarpTile &sums,
                                                 int64_t i, int64_t j,
                                                 Value factor) {
  Values elements;
  for (int64_t c = 0; c < tiles->chunk(); ++c) {
    Value value = mulF(sums.at(i, j + c), factor);
    if (!spec.elementType.isF32())
      value = f.builder.create<arith::TruncFOp>(f.loc, spec.elementType, value);
    elements.push_back(value);
  }
  return elements;
}

/// Stores a warp's sums to the result. The warp first writes them to its rows
/// of workgroup memory and reads them back in another order, which exchanges
/// elements between lanes. So each access to global memory has full width, and
/// adjacent lanes access adjacent memory.
void AttentionMapper::storeWide(const WarpTile &sums, ArrayRef<Value> factors,
                                const Heads &to, Value head, Value staging) {
  OpBuilder &b = f.builder;
  Value firstStaged = i32.mul(warp, warpRows);
  if (isSliced()) // Waits until lanes have read what was staged before.
    b.create<NVVM::SyncWarpOp>(f.loc, i32.constant(-1));
  for (int64_t i = 0; i < sums.rows; ++i)
    for (int64_t j = 0; j < sums.columns; j += tiles->chunk()) {
      Value row = i32.add(firstStaged, tiles->row(i));
      Value column =
          i32.add(tiles->firstSumColumn(), tiles->sumColumnOffset(j));
      f.store(rounded(sums, i, j, factors[i]), staging,
              {i32.toIndex(row), i32.toIndex(column)});
    }
  b.create<NVVM::SyncWarpOp>(f.loc, i32.constant(-1));
  int64_t width = accessBytes / dist::byteSize(spec.elementType);
  int64_t perRow = (isSliced() ? tiles->width() : spec.headDim) / width;
  Value lane = i32.rem(thread, warpSize);
  for (int64_t base = 0; base < warpRows * perRow; base += warpSize) {
    Value access = i32.add(lane, base);
    Value inTile = i32.div(access, perRow);
    Value column = i32.mul(i32.rem(access, perRow), width);
    Value row = i32.add(firstOfWarp, inTile);
    Value isIn = b.create<arith::AndIOp>(f.loc, i32.less(row, spec.seq),
                                         i32.less(inTile, warpRows));
    Value feature = i32.add(column, firstFeature);
    if (isSliced())
      isIn =
          b.create<arith::AndIOp>(f.loc, isIn, i32.less(feature, spec.headDim));
    ifThen(isIn, [&] {
      Value from[] = {i32.toIndex(i32.add(firstStaged, inTile)),
                      i32.toIndex(column)};
      Value vector = b.create<vector::LoadOp>(
          f.loc, VectorType::get({width}, spec.elementType), staging, from);
      b.create<vector::StoreOp>(f.loc, vector, to.memory,
                                indexOf(to, head, row, feature));
    });
  }
}

void AttentionMapper::storeChunk(const WarpTile &sums, int64_t i, int64_t j,
                                 Value factor, const Heads &to, Value head,
                                 Value row) {
  int64_t chunk = tiles->chunk();
  Values elements = rounded(sums, i, j, factor);
  Value column = i32.add(i32.add(tiles->firstSumColumn(), firstFeature),
                         tiles->sumColumnOffset(j));
  int64_t unit = spec.headDim % chunk == 0 ? chunk : 1;
  int64_t mostBehind = tiles->lanesOfRow() * chunk;
  for (int64_t c = 0; c < chunk; c += unit) {
    Value at = i32.add(column, c);
    auto store = [&] {
      f.store(ArrayRef(elements).slice(c, unit), to.memory,
              indexOf(to, head, row, at));
    };
    if (!isSliced() && tiles->sumColumnOffset(j) + mostBehind <= spec.headDim)
      store();
    else
      ifThen(i32.less(at, spec.headDim), store);
  }
}

} // namespace heddle::gpu
