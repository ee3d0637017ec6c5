//===- PackedLinear.cpp - Products with packed weights --------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn.packed_linear, with int4 and int8 quantized weights or packed floats: its
// verifier, costs and sharding rule; and #nn.packed.
//
//===----------------------------------------------------------------------===//

#include "dialects/Dist/ComputeType.h"
#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::nn;

int64_t PackedLinearOp::getPerWord() {
  if (getBits())
    return 32 / static_cast<int64_t>(*getBits());
  return tensorOf(getWeight()).getShape().back();
}

plan::PackedWeight PackedLinearOp::getPacked() {
  plan::PackedWeight packed;
  packed.shape = {getInputs(), getOutputs()};
  packed.bits = plan::PackedWeight::wordBits / getPerWord();
  packed.group = getGroups() > 0 ? getInputs() / getGroups() : 0;
  packed.layout = static_cast<plan::PackedLayout>(getLayout());
  return packed;
}

int64_t PackedLinearOp::getInputs() {
  return tensorOf(getInput()).getShape().back();
}

int64_t PackedLinearOp::getOutputs() {
  return tensorOf(getOutput()).getShape().back();
}

int64_t PackedLinearOp::getGroups() {
  return getScales() ? tensorOf(getScales()).getDimSize(1) : 0;
}

/// Verifies the weight's element type and rank, and that codes have scales.
static LogicalResult verifyKind(PackedLinearOp op) {
  auto weight = tensorOf(op.getWeight());
  bool hasCodes = weight.getElementType().isInteger(32);
  if (!hasCodes) {
    const dist::ComputeType *type = dist::findComputeType(weight);
    if (op.getBits() || op.getScales() || op.getZeros() || op.getInputBlock())
      return op.emitOpError(
                 "has bits, scales, zeros or an input_block, but its "
                 "weight is not quantized: ")
             << weight;
    if (type && weight.getRank() == 4 &&
        weight.getDimSize(3) * type->bytes * 8 == plan::PackedWeight::wordBits)
      return success();
    return op.emitOpError("needs a weight [panels, blocks, words of a block, "
                          "values of a word] of f32, bf16, f16 or codes, got ")
           << weight;
  }
  if (!op.getBits() || (*op.getBits() != 4 && *op.getBits() != 8))
    return op.emitOpError("has a quantized weight whose bits are not 4 or 8");
  if (!op.getScales())
    return op.emitOpError("has a quantized weight without scales");
  if (weight.getRank() != 3)
    return op.emitOpError(
               "needs codes [panels, blocks, words of a block], got ")
           << weight;
  return success();
}

/// Verifies `input_block`, the number of adjacent input features that are
/// rounded to int8 with a common scale. A block must begin at a whole word of
/// the packed weight. It must be short enough that the sum of its int8 products
/// fits into 32 bits.
static LogicalResult verifyInputBlock(PackedLinearOp op) {
  constexpr int64_t longest = 1 << 15;
  std::optional<uint64_t> given = op.getInputBlock();
  if (!given)
    return success();
  auto block = static_cast<int64_t>(*given);
  if (block > 0 && block <= longest && block % op.getPerWord() == 0)
    return success();
  return op.emitOpError("rounds inputs in blocks of ")
         << block << "; a multiple of " << op.getPerWord() << " up to "
         << longest << " is needed";
}

/// Verifies that quantization groups have equal lengths and whole words.
static LogicalResult verifyGroups(PackedLinearOp op) {
  if (!op.getScales())
    return success();
  auto scales = tensorOf(op.getScales());
  if (scales.getRank() != 3)
    return op.emitOpError("needs scales [panels, groups, outputs of a panel], "
                          "got ")
           << scales;
  int64_t groups = op.getGroups(), inputs = op.getInputs();
  if (groups < 1 || inputs % groups != 0 ||
      (groups > 1 && inputs / groups % op.getPerWord() != 0))
    return op.emitOpError("cuts ") << inputs << " inputs into " << groups
                                   << " groups, which have no whole words";
  return success();
}

LogicalResult PackedLinearOp::verify() {
  auto input = tensorOf(getInput()), output = tensorOf(getOutput());
  if (input.getRank() < 1 || output.getRank() != input.getRank() ||
      input.getShape().drop_back() != output.getShape().drop_back())
    return emitOpError("makes ") << output << " of " << input;
  if (failed(verifyKind(*this)) || failed(verifyGroups(*this)))
    return failure();
  auto weight = tensorOf(getWeight());
  plan::PackedWeight packed = getPacked();
  std::vector<int64_t> shape = packed.stateShape();
  if (weight.getShape().take_front(3) != ArrayRef(shape).take_front(3))
    return emitOpError("of ")
           << getInputs() << " inputs and " << getOutputs()
           << " outputs needs a weight of " << shape[0] << "x" << shape[1]
           << "x" << shape[2] << " words, got " << weight;
  if (Value bias = getBias();
      bias && tensorOf(bias).getShape() != ArrayRef<int64_t>(getOutputs()))
    return emitOpError("has a bias of type ") << bias.getType();
  if (!getScales())
    return success();
  auto scales = tensorOf(getScales());
  if (scales.getDimSize(0) != packed.panels() ||
      scales.getDimSize(2) != packed.block().outputs)
    return emitOpError("needs scales of ")
           << packed.panels() << "xGROUPSx" << packed.block().outputs
           << ", got " << scales;
  if (getZeros() && getZeros().getType() != scales)
    return emitOpError("has zeros of type ")
           << getZeros().getType() << ", and scales of type " << scales;
  return verifyInputBlock(*this);
}

double PackedLinearOp::getFlops() {
  auto output = static_cast<double>(tensorOf(getOutput()).getNumElements());
  return getModelFlops() +
         output * static_cast<double>(2 * getGroups() + (getBias() ? 1 : 0));
}

double PackedLinearOp::getModelFlops() {
  return 2 * static_cast<double>(tensorOf(getInput()).getNumElements()) *
         static_cast<double>(getOutputs());
}

StringRef PackedLinearOp::getNotDifferentiableReason() {
  return "is for inference only: its weight is packed when weights are loaded";
}

// Ranks can split the output features between panels, the contiguous blocks of
// the packed weight. They can split the input features between groups, which
// have scales of their own, or between blocks if there is at most one group;
// groups must then be whole blocks. They cannot split the input features if the
// input is rounded to int8 in blocks that the split could cut: other blocks
// would give other results.
dist::ShardingRule PackedLinearOp::getShardingRule() {
  plan::PackedWeight packed = getPacked();
  plan::PackedBlock block = packed.block();
  int64_t groups = getGroups(), blockInputs = getPerWord() * block.words;
  bool splitsOut = getOutputs() % block.outputs == 0;
  bool splitsIn = groups > 1
                      ? packed.groupWords() % block.words == 0
                      : getInputs() % blockInputs == 0 && !getInputBlock();
  std::string rows = leadingLetters(tensorOf(getInput()).getRank() - 1);
  std::string panel = splitsOut ? "o" : "x", word = splitsIn ? "i" : "y";
  std::string weight = panel + word + "l";
  if (!getScales())
    weight += "w";
  std::string scales = panel + (groups > 1 && splitsIn ? "i" : "u") +
                       (block.words == 1 ? "l" : "v");
  std::string whole = "lwuv";
  if (!splitsOut)
    whole += "ox";
  if (!splitsIn)
    whole += "iy";
  SmallVector<std::string> operands = {rows + "i", weight};
  if (getScales())
    operands.push_back(scales);
  if (getZeros())
    operands.push_back(scales);
  if (getBias())
    operands.push_back("o");
  dist::ShardingRule rule =
      dist::buildRule(*this, operands, {rows + "o"}, whole);
  auto count = [&](StringRef name, int64_t size, StringRef units) {
    dist::Factor &factor = rule.factors[rule.indexOf(name)];
    factor.size = size;
    factor.units = units.str();
  };
  if (splitsOut)
    count("o", packed.panels(), "panels");
  if (splitsIn)
    count("i", groups > 1 ? groups : packed.blocks(),
          groups > 1         ? "groups"
          : block.words == 1 ? "words"
                             : "blocks");
  return rule;
}

//===----------------------------------------------------------------------===//
// #nn.packed
//===----------------------------------------------------------------------===//

LogicalResult PackedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 PackedPart part, StringAttr name,
                                 RankedTensorType of, int64_t bits,
                                 int64_t group, bool even, bool, PackedLayout) {
  if (!of.hasStaticShape() || of.getRank() != 2 || of.getNumElements() == 0)
    return emitError() << "packs " << name << " of type " << of
                       << "; weights of products are of rank 2";
  if (!llvm::is_contained({32, 16, 8, 4}, bits))
    return emitError() << "packs values of " << bits
                       << " bits; 32, 16, 8 and 4 are known";
  int64_t perWord = 32 / bits;
  if (group < 0 || group % perWord != 0)
    return emitError() << "makes groups of " << group
                       << " inputs, which have no whole words of " << perWord;
  const dist::ComputeType *type = dist::findComputeType(of);
  if (bits >= 16 && (!type || type->bytes * 8 != bits))
    return emitError() << "packs " << name << " of type " << of
                       << " in floats of " << bits << " bits";
  if (part != PackedPart::Words && bits >= 16)
    return emitError()
           << "is scales or zeros of a weight that is not quantized";
  if (part == PackedPart::Zeros && even)
    return emitError()
           << "is zeros of a symmetrically quantized weight, which has none";
  return success();
}

plan::PackedWeight PackedAttr::toPlan() const {
  plan::PackedWeight packed;
  packed.part = static_cast<plan::PackedPart>(getPart());
  packed.name = getName().str();
  packed.shape = getOf().getShape().vec();
  packed.bits = getBits();
  packed.group = getGroup();
  packed.even = getEven();
  packed.transposed = getTransposed();
  packed.layout = static_cast<plan::PackedLayout>(getLayout());
  return packed;
}

RankedTensorType PackedAttr::getStateType(Type scale) const {
  plan::PackedWeight packed = toPlan();
  MLIRContext *context = getContext();
  Type element = scale;
  if (getPart() == PackedPart::Words)
    element = getBits() < 16 ? IntegerType::get(context, 32)
                             : getOf().getElementType();
  return RankedTensorType::get(packed.stateShape(), element);
}
