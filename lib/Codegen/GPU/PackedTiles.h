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
//   NormedRows     computes rows of x, if a norm is in the kernel
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H
#define HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H

#include "KernelFrame.h"
#include "ThreadCode.h"
#include "heddle/Codegen/Common/Product.h"

namespace heddle::gpu {

/// The index of a half along k: a step of the loop, and the half in it.
struct HalfIndex {
  mlir::Value step;
  int64_t inStep = 0;

  HalfIndex plus(int64_t halves) const { return {step, inStep + halves}; }
};

/// The sizes of a product with a packed weight. A half is the four words of an
/// output that a block has in half of its words: quantization groups begin at
/// halves. The order of a sum follows from sizes of the weight, and depends
/// neither on the number of rows nor on the chip.
struct FragmentShape {
  FragmentShape(const codegen::Product &product, const Chip &chip);

  plan::PackedWeight weight;
  mlir::Type weightType; ///< Of floats; null: the weight has codes.
  int64_t rows, groups, inputBlock;
  int64_t halvesOfGroup;
  /// Halves whose sum is scaled before it is added to other sums. 0: sums are
  /// scaled at the end, or not at all.
  int64_t halvesOfScale = 0;
  /// Whether tensor cores multiply; otherwise FMA in f32.
  bool isMma = false;
  int64_t tileRows = 1; ///< Rows of x that a block multiplies at once.
  /// Parts of k, whose sums are added in order.
  int64_t parts = 1;
  /// Panels that a block multiplies. With one, each part of k has a warp. With
  /// several, each warp multiplies all parts of a panel of its own, one after
  /// the other, and warps share rows of x in shared memory. Sums are the same.
  int64_t panelsOfBlock = 1;
  /// Panels that a warp multiplies. With two, the other half of the block's
  /// warps multiplies the same panels by the other half of the rows: warps then
  /// load half as many rows from shared memory for as many products.
  int64_t panelsOfWarp = 1;
  /// Blocks of which a part of k has a multiple: whole scaled sums and steps.
  int64_t blocksOfUnit = 1;
  int64_t stepBlocks = 1; ///< Blocks that the loop multiplies in a step.
  /// Whether copies of the weight start before the kernels before this one have
  /// ended (KernelOrder.h).
  bool beginsEarly = false;
  /// Whether shared memory has all rows of x, because the kernel computes them
  /// (NormedRows).
  bool keepsRows = false;
  /// The most bytes of the rings of a block: two blocks fit on a
  /// multiprocessor.
  int64_t ringMemory = 72 * 1024;

  /// Sets how many panels a block multiplies.
  void setPanels(int64_t count);
  bool hasCodes() const { return !weightType; }
  int64_t perWord() const { return weight.perWord(); }
  int64_t halfInputs() const { return halfWords * perWord(); }
  int64_t stepHalves() const { return 2 * stepBlocks; }
  int64_t stepInputs() const { return stepHalves() * halfInputs(); }
  int64_t steps() const { return weight.blocks() / stepBlocks; }
  int64_t stepsOfUnit() const { return blocksOfUnit / stepBlocks; }
  int64_t units() const {
    return llvm::divideCeil(weight.blocks(), blocksOfUnit);
  }
  /// Halves that are multiplied by rows before a sum may have to be scaled.
  int64_t halvesOfChunk() const;
  bool warpsDivideK() const { return panelsOfBlock == 1; }
  int64_t warps() const { return warpsDivideK() ? parts : panelsOfBlock; }
  /// Rows of a tile that shared memory has. If x has fewer rows than a
  /// fragment, lanes of the others load the last one: nothing reads their sums.
  int64_t storedRows() const;
  int64_t rowsOfWarp() const { return tileRows / panelsOfWarp; }
  /// The index in the block of the first panel of this thread's warp.
  mlir::Value firstPanel(ThreadCode &c) const;
  /// The index in the tile of the first row of this thread's warp.
  mlir::Value firstRowOfWarp(ThreadCode &c) const;
  /// Whether groups have padding.
  bool isPadded() const {
    return groups > 1 && weight.groupLength() % halfInputs() != 0;
  }
  /// Whether all blocks are full: no input of the last one is missing.
  bool fillsBlocks() const {
    return weight.blocks() * 2 * halfInputs() == weight.inputs();
  }
  /// Blocks of rounded inputs (nn.packed_linear) that a group has.
  int64_t inputBlocksOfGroup() const {
    return llvm::divideCeil(weight.groupLength(), inputBlock);
  }
  /// The index of a half among all halves.
  mlir::Value number(ThreadCode &c, HalfIndex half) const {
    return c.add(c.mul(half.step, stepHalves()), half.inStep);
  }

  static constexpr int64_t halfWords = 4, panelOutputs = 16;
  static constexpr int64_t blockBytes = 512, mostParts = 8;

private:
  void chooseTile();
  void chooseStep();
};

/// Emits cp.async of 16 bytes, from `source` plus `inSource` bytes to `target`
/// plus `inTarget`. Copies the first `present` bytes, and fills the others with
/// zeros; null: copies all. The constants become part of the instruction, which
/// those of the intrinsic do not. With `isCached`, the L1 cache keeps the bytes
/// for other blocks.
void copyUnit(ThreadCode &c, mlir::Value target, int64_t inTarget,
              mlir::Value source, int64_t inSource, mlir::Value present,
              bool isCached);

/// Loads elements of x: from a slot of the ring, or if rows are not aligned
/// from global memory. Elements outside of x are 0.
class RowReader {
public:
  /// Rows of `element`, with the leading dimension `stride`, from `memory` on.
  RowReader(ThreadCode &c, const FragmentShape &shape, mlir::Value memory,
            mlir::Type element, int64_t stride)
      : c(c), shape(shape), memory(memory), element(element), stride(stride) {}
  /// Rows that shared memory has: step after step, each as a slot has them.
  RowReader(ThreadCode &c, const FragmentShape &shape, mlir::Type element)
      : RowReader(c, shape, /*memory=*/{}, element, shape.weight.inputs()) {}

  /// What a lane loads: the elements of a row that a word is multiplied by.
  struct Position {
    mlir::Value firstRow; ///< The first row of the tile.
    mlir::Value row;      ///< The lane's row in the tile, without `moved`.
    int64_t moved;        ///< A constant that is added to `row`.
    bool checksRow;       ///< The row may be outside of x.
    HalfIndex half;       ///< The word's half.
    mlir::Value word;     ///< The index of the word in its half.
  };
  /// Loads as many elements as a word has. Returns f32, or with `asPairs` i32
  /// of two adjacent elements of 16 bits.
  llvm::SmallVector<mlir::Value> load(const Position &place,
                                      bool asPairs) const;

  /// Whether the ring has rows: cp.async copies aligned units of 16 bytes.
  bool areCopied() const {
    return memory && !shape.isPadded() &&
           stride * elementBytes() % accessBytes == 0;
  }
  /// Bytes of a row in a slot: the inputs of a step.
  int64_t rowBytes() const { return shape.stepInputs() * elementBytes(); }
  /// Bytes of the rows in a slot.
  int64_t slotBytes() const { return shape.storedRows() * rowBytes(); }

  /// Prepares copies of rows to slots, the first of which is at `slots`, by
  /// `threads` threads. Returns the address in global memory from which
  /// `thread` copies first for `step`.
  mlir::Value prepareCopies(mlir::Value slots, mlir::Value thread,
                            int64_t threads, mlir::Value firstRow,
                            mlir::Value step);
  /// Starts the copies of the inputs of `step` to the slot at `offset`.
  void startCopies(mlir::Value offset, mlir::Value source,
                   mlir::Value step) const;
  /// Prepares loads of this lane from slots, the first of which is at `slots`.
  /// `row` and `word` are those of positions.
  void prepareLoads(mlir::Value slots, mlir::Value row, mlir::Value word);
  /// Rows are loaded from the slot at `offset` from now on.
  void setSlot(mlir::Value offset) { slot = offset; }
  /// Stores adjacent elements of a row, or i32 of two each, from column `input`
  /// on in `resident`, the memory that has all rows.
  void store(mlir::Value resident, mlir::Value row, mlir::Value input,
             llvm::ArrayRef<mlir::Value> elements) const;

private:
  /// A copy of 16 bytes by each thread.
  struct Copy {
    mlir::Value target; ///< In the first slot, without `inSlot`.
    int64_t inSlot;     ///< A constant that is added to `target`.
    int64_t moved;      ///< Distance of the source from that of the first copy.
    mlir::Value unit;   ///< Index in the row of the 16 bytes.
    /// Bytes that are in x, and whether this thread copies; null: all.
    mlir::Value present, condition;
  };

  int64_t elementBytes() const { return dist::byteSize(element); }
  int64_t units() const { return rowBytes() / accessBytes; }
  int64_t unitsOfHalf() const;
  int64_t numBases() const;
  llvm::SmallVector<mlir::Value>
  loadFromSlot(const Position &place, mlir::Type type, int64_t count) const;
  int64_t numKeys() const;
  int64_t rowsOfKey() const;
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
  llvm::SmallVector<Copy> copies;
  /// Addresses in the first slot of this lane's elements of the first halves.
  llvm::SmallVector<mlir::Value> bases;
  mlir::Value slot; ///< Null: rows are in global memory.
};

/// Multiplies words of a weight by rows of x.
class PackedUnit {
public:
  PackedUnit(ThreadCode &c, const FragmentShape &shape, const RowReader &rows);
  virtual ~PackedUnit() = default;

  /// The f32 sums that a lane has.
  virtual int64_t numSums() const = 0;
  /// Sets the zero points of this lane's outputs, two of each panel, in f32.
  virtual void setZeros(llvm::ArrayRef<mlir::Value> zeros) = 0;
  /// Multiplies `words` of this lane and adds the products to `sums`. The words
  /// are those of the warp's first panel, two for each half from `half` on,
  /// then those of the second. `firstRow` is the first row of the tile.
  virtual void multiply(llvm::ArrayRef<mlir::Value> words, mlir::Value firstRow,
                        HalfIndex half,
                        llvm::MutableArrayRef<mlir::Value> sums) = 0;
  /// The first of the rows of a tile that this lane loads.
  virtual mlir::Value row() const = 0;
  using SumBody = llvm::function_ref<void(mlir::Value row, int64_t output,
                                          mlir::Value &sum)>;
  /// Calls `body` for each sum of this lane: with its row in the tile, and the
  /// index of the output among the lane's outputs, two of each panel.
  virtual void forSums(llvm::MutableArrayRef<mlir::Value> sums,
                       SumBody body) = 0;
  /// Adds up sums that several lanes have parts of. Returns the condition that
  /// this lane passes its sums on; null: every lane does.
  virtual mlir::Value join(llvm::MutableArrayRef<mlir::Value> sums) = 0;

  /// Prepares loads of rows from slots, the first of which is at `slots`.
  void prepareLoads(mlir::Value slots) {
    rows.prepareLoads(slots, row(), word());
  }
  RowReader &reader() { return rows; }
  /// The index in its panel of the lane's first output of a panel; the second
  /// is eight outputs after it.
  mlir::Value output() const { return c.div(lane, FragmentShape::halfWords); }

protected:
  /// The elements that this lane multiplies by its words of a half: of the row
  /// `moved` rows after its first one.
  RowReader::Position positionOf(mlir::Value firstRow, int64_t moved,
                                 HalfIndex half) const {
    bool checksRow = shape.rows % shape.tileRows != 0;
    return {firstRow, row(), moved, checksRow, half, word()};
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

/// A ring in shared memory: of each warp, or of the block if its warps have
/// panels of their own. A slot has the words of a step, and the step's inputs
/// of a tile of rows. Copies of the next steps are under way while a step is
/// multiplied. If each warp has a part of k, the ring also has all scales and
/// zero points of the part.
class PackedRing {
public:
  /// Scales or zero points in global memory.
  struct Table {
    mlir::Value memory;
    mlir::Type element;
  };
  PackedRing(ThreadCode &c, const FragmentShape &shape, PackedUnit &unit,
             mlir::Value weight, mlir::Value panel, mlir::Value firstRow,
             llvm::ArrayRef<Table> tables);

  /// Bytes of shared memory of all rings of a block.
  int64_t bytes() const {
    return (shape.warpsDivideK() ? shape.warps() : 1) * ringBytes();
  }
  /// Starts the copies of the first steps from `first` on, before `end`. The
  /// block's rings begin at `memory`. If shared memory has all rows, at
  /// `resident`, then `computeRows` computes them while copies are under way;
  /// null: they are there.
  void start(mlir::Value memory, mlir::Value first, mlir::Value end,
             mlir::Value resident, llvm::function_ref<void()> computeRows);
  /// What the loop carries first: offsets of the slots that are read and
  /// written, and addresses in global memory of the next copies.
  llvm::SmallVector<mlir::Value> firstState();
  /// Waits for `step`, and starts the copies of a later one. Returns the next
  /// state.
  llvm::SmallVector<mlir::Value> advance(mlir::Value step,
                                         mlir::ValueRange state);
  /// This lane's words of the step, panel after panel.
  llvm::SmallVector<mlir::Value> words();
  /// Whether the ring has scales and zero points.
  bool hasTables() const;
  /// This lane's two elements of a table, as f32. `half` is in the group whose
  /// elements these are.
  llvm::SmallVector<mlir::Value> ofOutputs(int64_t table, HalfIndex half);

private:
  int64_t stages() const;
  int64_t wordBytes() const { return shape.stepBlocks * shape.blockBytes; }
  int64_t rowBytes() const;
  int64_t slotBytes() const;
  int64_t ringBytes() const;
  int64_t groupBytes(int64_t table) const;
  int64_t groupsOfPart() const;
  int64_t tableBytes(int64_t table) const;
  int64_t tableOffset(int64_t table) const;
  void startTables();
  void startWords(mlir::Value offset, mlir::Value from);
  void startFirstSteps();
  void startFirstWords();
  void startRows(mlir::Value offset, mlir::ValueRange sources,
                 mlir::Value step);
  mlir::Value sourceAfter(int64_t source, mlir::Value pointer);
  void synchronize();

  ThreadCode &c;
  const FragmentShape &shape;
  PackedUnit &unit;
  mlir::Value weight, panel, firstRow, lane;
  llvm::SmallVector<Table, 2> tables;
  mlir::Value ring, first, end;
  /// The address in the first slot to which this lane copies words.
  mlir::Value copiedWords;
  /// The addresses in the first slot of this lane's words of each panel.
  llvm::SmallVector<mlir::Value, 2> wordsOfPanels;
  llvm::SmallVector<mlir::Value, 2> tablesOfLane, sources;
  mlir::Value slot; ///< The offset of the slot that is read.
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

/// The sums of one product in some panels of outputs and a tile of rows, which
/// a block computes: in one panel, or with many rows in one for each warp.
class PanelSums {
public:
  /// `panels` is the index of the block's panels among those of all blocks,
  /// `firstRow` the first row of the tile.
  PanelSums(KernelFrame &frame, ThreadCode &c, const FragmentShape &shape,
            const codegen::Product &product, mlir::Value panels,
            mlir::Value firstRow);

  /// Bytes of shared memory for the rings of all warps, and for sums.
  int64_t ringBytes() const { return ring->bytes(); }
  int64_t sumBytes() const { return sumBytes(shape); }
  static int64_t sumBytes(const FragmentShape &shape) {
    return shape.warps() * panelStride(shape) * 4;
  }
  /// Where a block's values are in shared memory.
  struct Memory {
    mlir::Value rings;
    mlir::Value sums; ///< With many rows possibly that of the rings.
    mlir::Value rows; ///< If the block has all rows.
  };
  /// Computes the sums of all warps, and writes them to memory. `computeRows`
  /// is what PackedRing::start says.
  void emit(const Memory &memory, llvm::function_ref<void()> computeRows);
  /// Returns the sums of `width` adjacent outputs of a row of the tile, after a
  /// barrier. `output` counts from the first output of the block's panels.
  llvm::SmallVector<mlir::Value> join(mlir::Value memory, mlir::Value row,
                                      mlir::Value output, int64_t width);

private:
  /// A row of sums in shared memory has this many f32: more than a panel has
  /// outputs, so that lanes with adjacent rows write to different banks.
  static constexpr int64_t sumStride = 20;

  using Values = llvm::SmallVector<mlir::Value>;
  static int64_t panelStride(const FragmentShape &shape) {
    return shape.tileRows * sumStride;
  }
  int64_t panelStride() const { return panelStride(shape); }
  mlir::Value panelAt(mlir::Value inBlock);
  void createUnit();
  void createRing();
  mlir::Value partBegin(mlir::Value part);
  Values emitSteps(const Memory &memory,
                   llvm::function_ref<void()> computeRows);
  Values emitStep(mlir::Value step, Values carried);
  Values emitHalves(llvm::ArrayRef<mlir::Value> words, HalfIndex half,
                    Values carried);
  mlir::Value endsScale(HalfIndex lastHalf);
  Values scaleSums(HalfIndex lastHalf, Values carried);
  void addScaled(HalfIndex half, llvm::MutableArrayRef<mlir::Value> carried);
  Values finishPart(mlir::Value step, Values carried);
  mlir::Value groupOf(HalfIndex half);
  Values ofOutputs(int64_t table, HalfIndex half);
  void putSums(mlir::Value memory, llvm::MutableArrayRef<mlir::Value> sums);

  KernelFrame &frame;
  ThreadCode &c;
  const FragmentShape &shape;
  const codegen::Product &product;
  RoundedInputs rounded;
  mlir::Value panels, firstRow;
  std::unique_ptr<PackedUnit> unit;
  std::unique_ptr<PackedRing> ring;
};

/// Maps products of the same rows with packed weights, and the element-wise
/// operations after them. Reports H0174 if a weight has another layout than
/// `fragments`.
mlir::FailureOr<MappedKernel>
mapPackedProducts(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
                  llvm::ArrayRef<codegen::Product> products, const Chip &chip);

} // namespace heddle::gpu

#endif // HEDDLE_LIB_CODEGEN_GPU_PACKEDTILES_H
