//===- MapPacked.cpp - Products with packed weights -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Maps products of rows by packed weights (nn.packed_linear), and their
// epilogue. A block multiplies a panel of outputs by a tile of rows, or with
// many rows several panels (PanelSums). If several products of the kernel give
// one result, a block multiplies a panel of each of them. Otherwise each
// product has blocks of its own.
//
// If inputs are rounded to int8 (`input_block`), a launch before the products
// writes their codes and scales to scratch memory. If the kernel computes the
// rows by a norm, each block computes all of them (NormedRows).
//
//===----------------------------------------------------------------------===//

#include "NormedRows.h"
#include "ProductResults.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

namespace heddle::gpu {

namespace {
/// Products whose results are computed together, by the same blocks.
struct JointProducts {
  llvm::SmallBitVector products; ///< Of the kernel's products.
  SmallVector<unsigned> outputs; ///< The results computed of them.
};

class PackedMapper {
public:
  PackedMapper(planir::KernelOp kernel, mlir::gpu::GPUModuleOp module,
               ArrayRef<codegen::Product> products, const Chip &chip)
      : kernel(kernel), module(module), products(products), chip(chip),
        shapes(llvm::map_to_vector(products,
                                   [&](const codegen::Product &product) {
                                     return FragmentShape(product, chip);
                                   })),
        rounded(shapes.front()) {
    if (!isa<BlockArgument>(first().a))
      normed.emplace(kernel, first().a, shapes.front());
    for (FragmentShape &shape : shapes)
      shape.keepsRows = normed.has_value();
  }

  MappedKernel run();

private:
  const codegen::Product &first() const { return products.front(); }
  std::string findJoint();
  int64_t rowTiles() const {
    return llvm::divideCeil(first().m, shapes.front().tileRows);
  }
  void choosePanels();
  void divideMemory();
  llvm::SmallBitVector productsOf(Value value) const;
  LogicalResult startFrame(StringRef suffix);
  LogicalResult emitRounding();
  LogicalResult emitProducts();
  LogicalResult emitJoint(const JointProducts &of, Value panels);
  /// The sums of a product, and their address in shared memory.
  using SumsInMemory = std::pair<std::unique_ptr<PanelSums>, Value>;
  LogicalResult emitResults(const JointProducts &of, Value panels,
                            MutableArrayRef<SumsInMemory> sums);

  planir::KernelOp kernel;
  mlir::gpu::GPUModuleOp module;
  ArrayRef<codegen::Product> products;
  const Chip &chip;
  SmallVector<FragmentShape> shapes;
  RoundedInputs rounded;
  std::optional<NormedRows> normed; ///< Null: rows are an argument.
  SmallVector<JointProducts> joint;
  std::unique_ptr<KernelFrame> frame;
  std::unique_ptr<ThreadCode> code;
  Value memory, firstRow;
  int64_t sharedBytes = 0;
  bool hasFailed = false;
  SmallVector<MappedLaunch, 2> launches;
};
} // namespace

LogicalResult PackedMapper::startFrame(StringRef suffix) {
  FrameOptions options;
  options.scratchBytes = rounded.scratchBytes();
  options.suffix = suffix.str();
  frame = std::make_unique<KernelFrame>(kernel, module, options);
  code = std::make_unique<ThreadCode>(frame->builder, frame->loc);
  return frame->emitScalars();
}

/// Emits the launch that rounds inputs: a warp for each block of inputs.
LogicalResult PackedMapper::emitRounding() {
  constexpr int64_t warps = 4;
  if (failed(startFrame("")))
    return failure();
  ThreadCode &c = *code;
  int64_t ofRow = rounded.scalesOfRow(), blocks = first().m * ofRow;
  Value number = c.add(c.mul(c.blockId(mlir::gpu::Dimension::x), warps),
                       c.div(c.threadId(), warpSize));
  {
    InsideIf inside(c, c.less(number, blocks));
    rounded.roundBlock(*frame, c, first().a, c.div(number, ofRow),
                       c.rem(number, ofRow));
  }
  frame->finish({static_cast<int64_t>(llvm::divideCeil(blocks, warps))},
                warps * warpSize);
  launches.push_back(frame->launch());
  return success();
}

//===----------------------------------------------------------------------===//
// Which products a block computes
//===----------------------------------------------------------------------===//

/// The products that `value` is computed of.
llvm::SmallBitVector PackedMapper::productsOf(Value value) const {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  getBackwardSlice(value, &slice, options);
  llvm::SmallBitVector found(products.size());
  for (auto [i, product] : llvm::enumerate(products))
    if (slice.contains(product.op))
      found.set(i);
  return found;
}

/// Divides the kernel's products into those that give no result together.
/// Returns why that is not possible; empty if it is.
std::string PackedMapper::findJoint() {
  Operation *yield = kernel.getBody().front().getTerminator();
  for (unsigned i = 0; i < yield->getNumOperands(); ++i) {
    JointProducts all = {productsOf(yield->getOperand(i)), {i}};
    for (JointProducts &other : joint) {
      if (!all.products.anyCommon(other.products))
        continue;
      all.products |= other.products;
      all.outputs.insert(all.outputs.begin(), other.outputs.begin(),
                         other.outputs.end());
      other.products.reset();
    }
    llvm::erase_if(joint, [](const JointProducts &other) {
      return other.products.none();
    });
    if (all.products.none())
      return "a result that is computed of no product";
    joint.push_back(all);
  }
  for (const JointProducts &of : joint)
    for (int i : of.products.set_bits())
      if (products[i].n != products[of.products.find_first()].n)
        return "a result of products with different columns";
  return "";
}

/// Chooses how many panels a block multiplies. Each block reads all rows of its
/// tile. If these are more bytes than a panel, several panels share them,
/// unless too few multiprocessors had a block then. With many rows they always
/// do, since the warps of a block would not have memory for copies of their
/// own.
void PackedMapper::choosePanels() {
  constexpr int64_t manyRows = 32;
  auto blocksOf = [&](int64_t panels) {
    int64_t blocks = 0;
    for (const JointProducts &of : joint)
      blocks += llvm::divideCeil(
          shapes[of.products.find_first()].weight.panels(), panels);
    return blocks * rowTiles();
  };
  int64_t panels = 1;
  // An element of a row has 16 bits, and a panel 16 outputs. A block issues
  // about as many instructions to compute a row by a norm as for the panel's
  // share of twice as many bytes.
  int64_t rows = normed ? 2 * first().m : first().m;
  if (shapes.front().isMma && rows > shapes.front().weight.bits) {
    if (4 * blocksOf(8) >= 3 * chip.multiprocessors)
      panels = 8;
    else if (first().m > manyRows || 3 * blocksOf(4) >= chip.multiprocessors)
      panels = 4;
  }
  for (FragmentShape &shape : shapes)
    shape.setPanels(panels);
}

/// Chooses how much memory rings have beside the rows that a block computes:
/// two blocks fit on a multiprocessor, if each has enough copies under way
/// then.
void PackedMapper::divideMemory() {
  constexpr int64_t least = 48 * 1024, most = 144 * 1024;
  if (!normed)
    return;
  size_t products = 1;
  for (const JointProducts &of : joint)
    products = std::max(products, of.products.count());
  int64_t others = normed->bytes() + static_cast<int64_t>(products) *
                                         PanelSums::sumBytes(shapes.front());
  for (FragmentShape &shape : shapes) {
    int64_t ofHalf = std::min(shape.ringMemory, chip.halfBytes() - others);
    shape.ringMemory =
        ofHalf >= least ? ofHalf : std::min(most, chip.blockBytes() - others);
  }
}

//===----------------------------------------------------------------------===//
// The products
//===----------------------------------------------------------------------===//

/// Adds up the sums of all warps, and computes the results of the block.
LogicalResult PackedMapper::emitResults(const JointProducts &of, Value panels,
                                        MutableArrayRef<SumsInMemory> sums) {
  ThreadCode &c = *code;
  OpBuilder &b = c.builder;
  const FragmentShape &shape = shapes.front();
  const codegen::Product &product = products[of.products.find_first()];
  int64_t width = widestChunk(product, resultChunk(kernel, product));
  int64_t outputs = FragmentShape::panelOutputs * shape.panelsOfBlock;
  int64_t perRow = outputs / width;
  auto loop = b.create<scf::ForOp>(c.loc, c.threadId(),
                                   c.constant(shape.tileRows * perRow),
                                   c.constant(shape.warps() * warpSize));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  Value inTile = c.div(loop.getInductionVar(), perRow);
  Value output = c.mul(c.rem(loop.getInductionVar(), perRow), width);
  Value row = c.add(firstRow, inTile);
  Value column = c.add(c.mul(panels, outputs), output);
  InsideIf inside(c, c.both(c.less(row, product.m), c.less(column, product.n)));
  SmallVector<ProductSums> ofProducts;
  for (auto [i, number] : llvm::enumerate(of.products.set_bits()))
    ofProducts.push_back(
        {products[number],
         sums[i].first->join(sums[i].second, inTile, output, width)});
  return ProductResults(*frame, c, of.outputs).store(row, column, ofProducts);
}

/// Emits the code of blocks that compute some panels of some products.
LogicalResult PackedMapper::emitJoint(const JointProducts &of, Value panels) {
  ThreadCode &c = *code;
  SmallVector<SumsInMemory> sums;
  int64_t bytes = 0, ofRows = normed ? normed->bytes() : 0;
  Value rings = c.at(memory, ofRows);
  size_t last = of.products.count() - 1;
  for (int i : of.products.set_bits()) {
    auto ofProduct = std::make_unique<PanelSums>(*frame, c, shapes[i],
                                                 products[i], panels, firstRow);
    bytes = std::max(bytes, ofProduct->ringBytes());
    // With many rows, the last sums take the memory of the ring, unless they
    // would reach the sums of another product after it.
    bool takesRing =
        !shapes[i].warpsDivideK() && sums.size() == last &&
        (last == 0 || ofProduct->sumBytes() <= ofProduct->ringBytes());
    int64_t first = takesRing ? 0 : bytes;
    Value at = c.at(rings, first);
    auto computeRows = [&] {
      hasFailed |= failed(normed->emit(*frame, c, memory));
    };
    // The first product of a block computes its rows.
    if (sums.empty())
      ofProduct->emit({rings, at, memory}, computeRows);
    else
      ofProduct->emit({rings, at, memory}, nullptr);
    bytes = std::max(bytes, first + ofProduct->sumBytes());
    sums.emplace_back(std::move(ofProduct), at);
  }
  sharedBytes = std::max(sharedBytes, ofRows + bytes);
  c.barrier();
  return emitResults(of, panels, sums);
}

LogicalResult PackedMapper::emitProducts() {
  if (failed(startFrame(rounded.scratchBytes() > 0 ? "_product" : "")))
    return failure();
  ThreadCode &c = *code;
  memory = c.sharedMemory();
  Value block = c.blockId(mlir::gpu::Dimension::x);
  // The products have the same rows, and weights with the same types, so that
  // their tiles are alike.
  int64_t tileRows = shapes.front().tileRows;
  firstRow = c.mul(c.blockId(mlir::gpu::Dimension::y), tileRows);
  int64_t blocks = 0;
  for (const JointProducts &of : joint) {
    const FragmentShape &shape = shapes[of.products.find_first()];
    auto ofJoint = static_cast<int64_t>(
        llvm::divideCeil(shape.weight.panels(), shape.panelsOfBlock));
    Value panels = c.add(block, -blocks);
    Value isHere;
    if (joint.size() > 1)
      isHere = c.both(c.less(c.constant(blocks - 1), block),
                      c.less(block, blocks + ofJoint));
    blocks += ofJoint;
    if (!isHere) {
      if (failed(emitJoint(of, panels)))
        return failure();
      continue;
    }
    InsideIf inside(c, isHere);
    if (failed(emitJoint(of, panels)))
      return failure();
  }
  frame->finish({blocks, rowTiles()}, shapes[0].warps() * warpSize,
                sharedBytes);
  // Without a minimum of blocks per multiprocessor, ptxas tries to fit more
  // blocks, and spills registers of products of many rows for that.
  frame->func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                       c.builder.getI32IntegerAttr(1));
  launches.push_back(frame->launch());
  return success();
}

MappedKernel PackedMapper::run() {
  if (std::string why = findJoint(); !why.empty())
    return MappedKernel::no(why);
  if (normed && !normed->reason().empty())
    return MappedKernel::no(normed->reason());
  if (normed &&
      llvm::any_of(kernel.getTies(), [](int64_t tie) { return tie >= 0; }))
    return MappedKernel::no("a product that overwrites an operand, while other "
                            "blocks compute its rows");
  choosePanels();
  divideMemory();
  bool isDone = rounded.scratchBytes() == 0 || succeeded(emitRounding());
  isDone = isDone && succeeded(emitProducts()) && !hasFailed;
  bool fits = sharedBytes <= chip.blockBytes();
  if (isDone && fits)
    return {launches, rounded.scratchBytes(), ""};
  for (const MappedLaunch &launch : launches)
    launch.func->erase();
  std::string reason = frame->emitter.reason();
  if (!isDone)
    frame->func.erase();
  return MappedKernel::no(fits ? reason
                               : "products whose sums need more shared memory "
                                 "than a block has");
}

FailureOr<MappedKernel> mapPackedProducts(planir::KernelOp kernel,
                                          mlir::gpu::GPUModuleOp module,
                                          ArrayRef<codegen::Product> products,
                                          const Chip &chip) {
  if (failed(codegen::verifyLayout(products, nn::PackedLayout::Fragments)))
    return failure();
  const codegen::Product &first = products.front();
  FragmentShape shape(first, chip);
  if (shape.inputBlock > 0 && shape.inputBlock % shape.halfInputs() != 0 &&
      shape.inputBlock < shape.weight.groupLength())
    return MappedKernel::no("inputs that are rounded in blocks of no multiple "
                            "of " +
                            std::to_string(shape.halfInputs()));
  return PackedMapper(kernel, module, products, chip).run();
}

} // namespace heddle::gpu
