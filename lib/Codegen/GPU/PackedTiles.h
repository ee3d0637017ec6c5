//===- PackedTiles.h - Products with packed weights -------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The classes that emit products with weights of the layout `fragments`
// (nn.packed_linear). The weight is the left operand, so that few rows of x
// fill the right one. A warp reads blocks of a panel one after the other, and
// its lanes have the words of a fragment of mma.sync. MapPacked.cpp combines:
//
//   FragmentShape  the sizes, and the parts of k
//   PackedRing     copies blocks to shared memory ahead of their use
//   RowReader      loads the elements of x that a lane multiplies
//   PackedUnit     unpacks words and multiplies them, on tensor cores or by FMA
//   PanelSums      the loop over a panel, and its sums
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::gpu {

/// The sizes of a product with a packed weight. A half is the four words of an
/// output that a block has in half of its words: quantization groups begin at
/// halves. The order of a sum follows from sizes of the weight, and depends
/// neither on the number of rows nor on the chip.
struct FragmentShape {
  explicit FragmentShape(const codegen::Product &product);

  plan::PackedWeight weight;
  mlir::Type weightType; ///< Of floats; null: the weight has codes.
  int64_t rows, groups, inputBlock;
  int64_t halvesOfGroup;
  /// Halves whose sum is scaled before it is added to other sums. 0: sums are
  /// scaled at the end, or not at all.
  int64_t halvesOfScale = 0;
  /// Whether tensor cores multiply; otherwise FMA in f32.
  bool isMma = false;
  int64_t tileRows = 1; ///< Rows of x that a warp multiplies at once.
  /// Warps that sum different parts of k.
  int64_t parts = 1;
  /// Blocks of which a part of k has a multiple: whole scaled sums.
  int64_t blocksOfUnit = 1;

  bool hasCodes() const { return !weightType; }
  int64_t perWord() const { return weight.perWord(); }
  int64_t halfInputs() const { return halfWords * perWord(); }
  /// Whether sums are scaled at ends of blocks only.
  bool scalesBlocks() const {
    return halvesOfScale % 2 == 0 && (groups <= 1 || halvesOfGroup % 2 == 0);
  }
  /// Whether groups have padding.
  bool isPadded() const {
    return groups > 1 && weight.groupLength() % halfInputs() != 0;
  }
  /// Blocks of rounded inputs (nn.packed_linear) that a group has.
  int64_t inputBlocksOfGroup() const {
    return llvm::divideCeil(weight.groupLength(), inputBlock);
  }

  static constexpr int64_t halfWords = 4, panelOutputs = 16;
  static constexpr int64_t blockBytes = 512, mostParts = 8;

private:
  void chooseTile();
};

/// Loads elements of x: from a slot of the ring, or if rows are not aligned
/// from global memory. Elements outside of x are 0.
class RowReader {
public:
  /// Rows of `element`, with the leading dimension `stride`, from `memory` on.
  RowReader(ThreadCode &c, const FragmentShape &shape, mlir::Value memory,
            mlir::Type element, int64_t stride)
      : c(c), shape(shape), memory(memory), element(element), stride(stride) {}

  /// What a lane loads: the elements of `row` that a word is multiplied by.
  struct Position {
    mlir::Value firstRow; ///< The first row of the tile.
    mlir::Value row;      ///< The index of the row in the tile.
    bool checksRow;       ///< The row may be outside of x.
    mlir::Value half;     ///< The index of the word's half along k.
    mlir::Value word;     ///< The index of the word in its half.
  };
  /// Loads as many elements as a word has. Returns f32, or with `asPairs` i32
  /// of two adjacent elements of 16 bits.
  llvm::SmallVector<mlir::Value> load(const Position &place,
                                      bool asPairs) const;

  /// Whether the ring can have rows: cp.async copies aligned units of 16 bytes.
  bool isAligned() const {
    return !shape.isPadded() && stride * elementBytes() % accessBytes == 0;
  }
  /// Bytes of a row in a slot: the inputs of a block.
  int64_t rowBytes() const { return 2 * shape.halfInputs() * elementBytes(); }
  /// Starts the copies of a warp of a block's inputs of `numRows` rows to a
  /// slot.
  void startCopies(mlir::Value slot, mlir::Value block, mlir::Value firstRow,
                   int64_t numRows, bool checksRow) const;
  /// Rows are loaded from `newSlot` from now on.
  void setSlot(mlir::Value newSlot) { slot = newSlot; }

private:
  int64_t elementBytes() const { return dist::byteSize(element); }
  llvm::SmallVector<mlir::Value>
  loadFromSlot(const Position &place, mlir::Type type, int64_t count) const;
  mlir::Value unitKey(mlir::Value row) const;
  bool isWhole() const;
  mlir::Value inside(const Position &place, mlir::Value input,
                     mlir::Value end) const;
  mlir::Value loadInside(mlir::Type type, mlir::Value row, mlir::Value input,
                         mlir::Value condition) const;

  ThreadCode &c;
  const FragmentShape &shape;
  mlir::Value memory;
  mlir::Type element;
  int64_t stride;
  mlir::Value slot; ///< Null: rows are in global memory.
};

/// Multiplies words of a weight by rows of x.
class PackedUnit {
public:
  PackedUnit(ThreadCode &c, const FragmentShape &shape, const RowReader &rows);
  virtual ~PackedUnit() = default;

  /// The f32 sums that a lane has.
  virtual int64_t numSums() const = 0;
  /// Sets the zero points of this lane's two outputs, in f32.
  virtual void setZeros(llvm::ArrayRef<mlir::Value> zeros) = 0;
  /// Multiplies `words` of this lane, two for each half from `half` on, and
  /// adds the products to `sums`. `firstRow` is the first row of the tile.
  virtual void multiply(llvm::ArrayRef<mlir::Value> words, mlir::Value firstRow,
                        mlir::Value half,
                        llvm::MutableArrayRef<mlir::Value> sums) = 0;
  using SumBody = llvm::function_ref<void(mlir::Value row, int64_t output,
                                          mlir::Value &sum)>;
  /// Calls `body` for each sum of this lane: with its row in the tile, and 0 or
  /// 1 for the first or second of the lane's outputs.
  virtual void forSums(llvm::MutableArrayRef<mlir::Value> sums,
                       SumBody body) = 0;
  /// Adds up sums that several lanes have parts of. Returns the condition that
  /// this lane passes its sums on; null: every lane does.
  virtual mlir::Value join(llvm::MutableArrayRef<mlir::Value> sums) = 0;

  /// Whether some tile extends beyond the last row of x.
  bool checksRows() const { return shape.rows % shape.tileRows != 0; }
  RowReader &reader() { return rows; }
  /// The index in its panel of the lane's first output; the second is eight
  /// outputs after it.
  mlir::Value output() const { return c.div(lane, FragmentShape::halfWords); }

protected:
  /// The elements of a row that this lane multiplies by its words of a half.
  RowReader::Position positionOf(mlir::Value firstRow, mlir::Value row,
                                 mlir::Value half) const {
    return {firstRow, row, checksRows(), half, word()};
  }
  /// The index in its half of this lane's words.
  mlir::Value word() const { return c.rem(lane, FragmentShape::halfWords); }

  ThreadCode &c;
  const FragmentShape &shape;
  RowReader rows;
  mlir::Value lane;
};

/// Inputs that are rounded to int8 (`input_block` of nn.packed_linear), in the
/// kernel's scratch memory: codes, which are exact in bf16, and their scales.
class RoundedInputs {
public:
  explicit RoundedInputs(const FragmentShape &shape) : shape(shape) {}

  /// 0 if inputs are not rounded.
  int64_t scratchBytes() const;
  /// The leading dimension of the codes.
  int64_t codeStride() const {
    return llvm::alignTo(shape.weight.inputs(), accessBytes);
  }
  int64_t scalesOfRow() const {
    return shape.groups * shape.inputBlocksOfGroup();
  }
  /// The address of the codes.
  mlir::Value codes(KernelFrame &frame, ThreadCode &c) const;
  /// The address of the scale of a block of inputs.
  mlir::Value scalePointer(KernelFrame &frame, ThreadCode &c, mlir::Value row,
                           mlir::Value block) const;
  /// Emits code with which a warp rounds a block of a row of `input`, an
  /// argument of the kernel.
  void roundBlock(KernelFrame &frame, ThreadCode &c, mlir::Value input,
                  mlir::Value row, mlir::Value block) const;

private:
  int64_t codeBytes() const {
    return llvm::alignTo(shape.rows * codeStride() * 2, accessBytes);
  }

  const FragmentShape &shape;
};

/// The ring of a warp in shared memory. A slot has the words of a block, the
/// block's inputs of a tile of rows, and scales and zero points. Copies of the
/// next blocks are under way while a block is multiplied.
class PackedRing {
public:
  /// Scales or zero points in global memory.
  struct Table {
    mlir::Value memory;
    mlir::Type element;
    bool isLast; ///< Read after the last block of a group; else from the first.
  };
  PackedRing(ThreadCode &c, const FragmentShape &shape, PackedUnit &unit,
             mlir::Value weight, mlir::Value panel, mlir::Value firstRow,
             llvm::ArrayRef<Table> tables);

  /// Bytes of shared memory of the rings of all warps.
  int64_t bytes() const { return shape.parts * warpBytes(); }
  /// Starts the copies of the first blocks from `first` on. The warp's rings
  /// begin at `memory`.
  void start(mlir::Value memory, mlir::Value first, mlir::Value end);
  /// The offsets of the slots that are read and written first.
  llvm::SmallVector<mlir::Value> firstOffsets();
  /// Waits for `block`, and starts the copies of a later one. Returns the next
  /// offsets.
  llvm::SmallVector<mlir::Value> advance(mlir::Value block,
                                         mlir::ValueRange offsets);
  /// This lane's words of the block.
  llvm::SmallVector<mlir::Value> words();
  /// Whether the ring has scales and zero points.
  bool hasTables() const;
  /// This lane's two elements of a table, as f32. `half` is in the group whose
  /// elements these are.
  llvm::SmallVector<mlir::Value> ofOutputs(int64_t table, mlir::Value half);

private:
  int64_t stages() const;
  int64_t rowBytes() const;
  int64_t groupsOfBlock() const { return shape.halvesOfGroup == 1 ? 2 : 1; }
  int64_t tableBytes(int64_t table) const;
  int64_t tableOffset(int64_t table) const;
  int64_t slotBytes() const;
  int64_t warpBytes() const { return stages() * slotBytes(); }
  void startTable(int64_t table, mlir::Value target, mlir::Value block);
  void startBlock(mlir::Value target, mlir::Value block);

  ThreadCode &c;
  const FragmentShape &shape;
  PackedUnit &unit;
  mlir::Value weight, panel, firstRow, lane;
  llvm::SmallVector<Table, 2> tables;
  mlir::Value ring, end, slot;
};

/// The unit for x of 16 bits and a weight of the same type or of codes: tensor
/// cores. `type` is the type of x.
std::unique_ptr<PackedUnit> createPackedMma(ThreadCode &c,
                                            const FragmentShape &shape,
                                            const RowReader &rows,
                                            mlir::Type type);
/// The unit for all other types: FMA in f32.
std::unique_ptr<PackedUnit> createPackedFma(ThreadCode &c,
                                            const FragmentShape &shape,
                                            const RowReader &rows);

/// Which bytes of a word of int8 codes form pairs: 0 1 and 2 3, or 0 2 and 1 3.
enum class CodeOrder { Adjacent, Alternate };
/// Converts the codes of a word to pairs of floats of the 16-bit type `type`,
/// each pair in an i32. `offsets` is what codeOffsets returns.
llvm::SmallVector<mlir::Value> codePairs(ThreadCode &c, int64_t bits,
                                         mlir::Type type, mlir::Value word,
                                         mlir::Value offsets,
                                         CodeOrder order = CodeOrder::Adjacent);
/// Returns the pair of equal floats that codePairs adds to converted codes. It
/// subtracts `zero`, an f32; null: 0.
mlir::Value codeOffsets(ThreadCode &c, int64_t bits, mlir::Type type,
                        mlir::Value zero);
/// Converts the elements of a word to f32: codes of `bits` bits if `type` is
/// null, else floats of `type`.
llvm::SmallVector<mlir::Value> wordFloats(ThreadCode &c, int64_t bits,
                                          mlir::Type type, mlir::Value word);

/// The sums of one product in a panel of outputs and a tile of rows, which a
/// block computes.
class PanelSums {
public:
  /// `panel` is the index of the panel, `firstRow` the first row of the tile.
  PanelSums(KernelFrame &frame, ThreadCode &c, const FragmentShape &shape,
            const codegen::Product &product, mlir::Value panel,
            mlir::Value firstRow);

  /// Bytes of shared memory for the rings of all warps, and for sums.
  int64_t ringBytes() const { return ring->bytes(); }
  int64_t sumBytes() const { return shape.parts * partStride() * 4; }
  /// Computes the sums of all parts of k, with rings at `rings`, and writes
  /// them to `memory`. Both are in shared memory.
  void emit(mlir::Value rings, mlir::Value memory);
  /// Adds up the sums of all parts for `width` adjacent outputs of a row of the
  /// tile, after a barrier.
  llvm::SmallVector<mlir::Value> join(mlir::Value memory, mlir::Value row,
                                      mlir::Value output, int64_t width);

private:
  /// A row of sums in shared memory has this many f32: more than a panel has
  /// outputs, so that lanes with adjacent rows write to different banks.
  static constexpr int64_t sumStride = 20;

  using Values = llvm::SmallVector<mlir::Value>;
  int64_t partStride() const { return shape.tileRows * sumStride; }
  /// Whether zero points are read at the first of several blocks of a group.
  bool keepsZeros() const {
    return product.zeros && shape.groups > 1 && shape.halvesOfGroup % 2 == 0 &&
           shape.halvesOfGroup > 2;
  }
  void createUnit();
  void createRing();
  Values emitBlocks(mlir::Value rings);
  Values emitBlock(mlir::Value block, Values carried);
  Values emitHalves(llvm::ArrayRef<mlir::Value> words, mlir::Value half,
                    Values carried);
  Values scaleSums(mlir::Value lastHalf, Values carried);
  void addScaled(mlir::Value half, llvm::MutableArrayRef<mlir::Value> carried);
  Values zerosOf(mlir::Value block, mlir::ValueRange carried);
  mlir::Value groupOf(mlir::Value half);
  Values ofOutputs(int64_t table, mlir::Value half);
  void putSums(mlir::Value memory, llvm::MutableArrayRef<mlir::Value> sums);

  KernelFrame &frame;
  ThreadCode &c;
  const FragmentShape &shape;
  const codegen::Product &product;
  RoundedInputs rounded;
  mlir::Value panel, firstRow;
  std::unique_ptr<PackedUnit> unit;
  std::unique_ptr<PackedRing> ring;
};

/// Maps products of the same rows with packed weights, and the element-wise
/// operations after them. Reports H0174 if a weight has another layout than
/// `fragments`.
mlir::FailureOr<MappedKernel>
mapPackedProducts(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  llvm::ArrayRef<codegen::Product> products);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H
