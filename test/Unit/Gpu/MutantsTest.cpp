//===- MutantsTest.cpp - Broken kernels are noticed -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every barrier, wait, commit and copy of a kernel's PTX is left out once, and
// every wait made to wait for less. The machine has to report a fault, by the
// name that is right for the line, unless the kernel computes the same bits
// without it: none may be silently wrong.
//
//===----------------------------------------------------------------------===//

#include "GpuKernel.h"
#include "SignTexts.h"
#include "heddle/emulator/ptx/Machine.h"
#include "gtest/gtest.h"

#include <cstdio>
#include <cstring>
#include <regex>
#include <sstream>

using namespace heddle;
using namespace heddle::test;
namespace emu = heddle::emulator;

namespace {

/// A kernel's text, its launches, and the bytes of its buffers.
struct Kernel {
  std::string name, ptx;
  std::vector<emu::Launch> launches;
  std::vector<std::vector<char>> buffers;
  int64_t scratchBytes = 0;

  /// Runs a variant of the text on the buffers; returns what went wrong.
  std::string run(const std::string &text,
                  std::vector<std::vector<char>> &results) const {
    std::string error;
    auto module = emu::Module::load(text, error);
    if (!module)
      return error;
    results = buffers;
    emu::GlobalMemory memory;
    // What was not written before is NaN.
    std::vector<char> scratch(scratchBytes, '\xff');
    std::vector<void *> pointers;
    auto add = [&](std::vector<char> &buffer) {
      memory.add("buffer", buffer.data(), buffer.size());
      pointers.push_back(buffer.data());
    };
    for (std::vector<char> &buffer : results)
      add(buffer);
    if (scratchBytes)
      add(scratch);
    for (emu::Launch launch : launches) {
      for (void *&pointer : pointers)
        launch.arguments.push_back(&pointer);
      std::string fault = module->run(launch, memory, emu::Options());
      if (!fault.empty())
        return fault;
    }
    return "";
  }
};

/// Compiles the only kernel of `text`. Its buffers hold small numbers, of bf16
/// and of f32.
Kernel compile(const std::string &name, const std::string &text,
               const std::vector<int64_t> &bytes, const char *chip) {
  Kernel kernel;
  kernel.name = name + " " + chip;
  auto module = parseModule(text);
  auto reports = gpu::compileKernelsForGpu(*module, chip);
  EXPECT_TRUE(succeeded(reports));
  auto object = *module->getOps<planir::ObjectOp>().begin();
  kernel.ptx = object.getData().str();
  auto sizes = [](llvm::ArrayRef<int64_t> list) {
    return emu::Dim3{list[0], list[1], list[2]};
  };
  auto mapped = *module->getOps<planir::KernelOp>().begin();
  kernel.scratchBytes = mapped.getScratchBytes().value_or(0);
  for (auto grid : mapped.getLaunches()->getAsRange<planir::GridLaunchAttr>()) {
    emu::Launch launch;
    launch.kernel = grid.getSymbol().str();
    launch.grid = sizes(grid.getGrid());
    launch.block = sizes(grid.getBlock());
    launch.sharedBytes = grid.getShared();
    kernel.launches.push_back(launch);
  }
  for (int64_t size : bytes) {
    std::vector<char> buffer(size);
    for (int64_t i = 0; i < size; ++i)
      buffer[i] = static_cast<char>(i % 2 ? 0x3f : (i * 37 + size) % 251);
    kernel.buffers.push_back(std::move(buffer));
  }
  return kernel;
}

std::string join(const std::vector<std::string> &lines) {
  std::string text;
  for (const std::string &line : lines)
    text += line + "\n";
  return text;
}

/// What a line of a kernel keeps in order, and how the machine has to name what
/// goes wrong without it. Another name, as that of a text that cannot be read,
/// says nothing about the line.
struct LineKind {
  const char *opcode;
  std::vector<const char *> names;
  bool isCopy = false;
};
const char *const isUnwritten = "of shared memory, which nobody has written";
const char *const isUnderWay = "before the wait for the asynchronous copy of";
const LineKind lineKinds[] = {
    {"bar.sync", {" races with ", isUnwritten, isUnderWay}},
    {"bar.warp.sync", {" races with "}},
    {"cp.async.commit_group", {isUnderWay, "races with a copy under way"}},
    {"cp.async.wait_group", {isUnderWay, "races with a copy under way"}},
    {"cp.async.c", {isUnwritten}, /*isCopy=*/true}};

/// A text that differs from a kernel's by one line.
struct Mutant {
  const LineKind *kind;
  std::string what, text;
};

std::vector<Mutant> mutantsOf(const std::string &ptx, bool leavesCopies) {
  std::vector<std::string> lines;
  std::istringstream stream(ptx);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  std::vector<Mutant> mutants;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string line = lines[i];
    const LineKind *kind = llvm::find_if(lineKinds, [&](const LineKind &each) {
      return line.find(each.opcode) != line.npos;
    });
    if (kind == std::end(lineKinds) || (leavesCopies && kind->isCopy))
      continue;
    lines[i] = "";
    mutants.push_back(
        {kind, "without line " + std::to_string(i + 1) + line, join(lines)});
    if (size_t at = line.find("wait_group"); at != line.npos) {
      int pending = std::stoi(line.substr(at + 10));
      lines[i] = "cp.async.wait_group " + std::to_string(pending + 1) + ";";
      mutants.push_back({kind,
                         "line " + std::to_string(i + 1) + " as " + lines[i],
                         join(lines)});
    }
    lines[i] = line;
  }
  return mutants;
}

/// Whether a fault has one of the kind's names, and says where it happened.
bool isRight(const std::string &fault, const LineKind &kind) {
  static const std::regex place(
      R"(kernel \w+, line \d+ \(\w+:\d+\), [\w.:]+: .*\bbyte \d+ of shared memory.*; )"
      R"(block \(\d+, \d+, \d+\), thread \d+.*)");
  return std::regex_match(fault, place) &&
         llvm::any_of(kind.names, [&](const char *name) {
           return fault.find(name) != fault.npos;
         });
}

/// How many mutants all tests made, and how many of them faulted.
size_t allMade = 0, allNoticed = 0;

/// Where copies come over earlier ones, what is read without one has been
/// written, and waited for: only the values tell. There copies are left alone.
void check(const Kernel &kernel, size_t leastNoticed,
           bool leavesCopies = false) {
  SCOPED_TRACE(kernel.name);
  std::vector<std::vector<char>> expected, results;
  ASSERT_EQ(kernel.run(kernel.ptx, expected), "");
  EXPECT_NE(expected, kernel.buffers);
  size_t noticed = 0;
  for (const auto &[kind, what, text] : mutantsOf(kernel.ptx, leavesCopies)) {
    ++allMade;
    std::string fault = kernel.run(text, results);
    if (fault.empty()) {
      EXPECT_EQ(results, expected) << what << " is silently wrong";
      continue;
    }
    ++noticed;
    EXPECT_TRUE(isRight(fault, *kind)) << what << "\n" << fault;
  }
  EXPECT_GE(noticed, leastNoticed);
  allNoticed += noticed;
}

std::string linear(const std::string &x, const std::string &w,
                   const std::string &y, bool transposed) {
  return kernelText("gemm", "%x: " + x + ", %w: " + w, y,
                    std::string("%y = nn.linear %x, %w ") +
                        (transposed ? "{transposed} " : "") + ": (" + x + ", " +
                        w + ") -> " + y,
                    "%y");
}

class GpuMutants : public testing::TestWithParam<const char *> {
public:
  /// Of both chips together, where no test was left out. 1042 mutants were
  /// made, of which 834 faulted; the others computed the same bits.
  static void TearDownTestSuite() {
    std::printf("%zu mutants, %zu of them noticed\n", allMade, allNoticed);
    const auto &suite = *testing::UnitTest::GetInstance()->current_test_suite();
    if (suite.test_to_run_count() < suite.total_test_count())
      return;
    EXPECT_GE(allMade, 980u);
    EXPECT_GE(allNoticed, 800u);
  }
};

TEST_P(GpuMutants, Products) {
  // Three turns of the loop over k; edges in every dimension.
  std::string x = "tensor<70x104xbf16>", y = "tensor<70x72xbf16>";
  check(compile("io", linear(x, "tensor<104x72xbf16>", y, false),
                {70 * 104 * 2, 104 * 72 * 2, 70 * 72 * 2}, GetParam()),
        30);
  check(compile("oi", linear(x, "tensor<72x104xbf16>", y, true),
                {70 * 104 * 2, 104 * 72 * 2, 70 * 72 * 2}, GetParam()),
        30);
  std::string single = "tensor<37x41xf32>";
  check(compile("f32",
                linear(single, "tensor<41x40xf32>", "tensor<37x40xf32>", false),
                {37 * 41 * 4, 41 * 40 * 4, 37 * 40 * 4}, GetParam()),
        20);
}

/// The blocks that sum a factor have a loop of their own.
TEST_P(GpuMutants, ProductsWithSums) {
  std::string x = "tensor<104x70xbf16>", g = "tensor<104x72xbf16>",
              y = "tensor<70x72xf32>", s = "tensor<72xf32>";
  check(compile("sums",
                kernelText("gemm", "%x: " + x + ", %g: " + g, y + ", " + s,
                           "%y = nn.linear_grad_weight %x, %g : (" + x + ", " +
                               g + ") -> " + y + "\n%s = nn.sum_rows %g : (" +
                               g + ") -> " + s,
                           "%y, %s"),
                {104 * 70 * 2, 104 * 72 * 2, 70 * 72 * 4, 72 * 4}, GetParam()),
        70);
}

TEST_P(GpuMutants, LayerNorm) {
  std::string types = "tensor<3x1600xbf16>, tensor<3xf32>, tensor<3xf32>";
  std::string in = "tensor<3x1600xbf16>, tensor<1600xbf16>, tensor<1600xbf16>";
  check(compile("layer norm",
                kernelText("rows",
                           "%x: tensor<3x1600xbf16>, %w: tensor<1600xbf16>, "
                           "%b: tensor<1600xbf16>",
                           types,
                           "%y, %m, %s = nn.layer_norm %x, %w, %b {eps = "
                           "1.0e-5 : f64} : (" +
                               in + ") -> (" + types + ")",
                           "%y, %m, %s"),
                {9600, 3200, 3200, 9600, 12, 12}, GetParam()),
        2);
}

/// Rows of warps, which read weights that the block brought.
TEST_P(GpuMutants, ShortRows) {
  std::string x = "tensor<1031x264xbf16>", w = "tensor<264xbf16>";
  std::string types = x + ", tensor<1031xf32>";
  check(compile("rms norm",
                kernelText("rows", "%x: " + x + ", %w: " + w, types,
                           "%y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} "
                           ": (" +
                               x + ", " + w + ") -> (" + types + ")",
                           "%y, %s"),
                {1031 * 528, 528, 1031 * 528, 1031 * 4}, GetParam()),
        1);
}

/// Several rows for each block, whose sums a second launch adds.
TEST_P(GpuMutants, NormGradients) {
  std::string x = "tensor<11x264xbf16>", w = "tensor<264xbf16>";
  std::string row = "tensor<11xf32>", sums = "tensor<264xf32>";
  check(compile("layer norm gradients",
                kernelText("rows",
                           "%g: " + x + ", %x: " + x + ", %w: " + w +
                               ", %m: " + row + ", %s: " + row,
                           x + ", " + sums + ", " + sums,
                           "%d = nn.layer_norm_grad_input %g, %x, %w, %m, %s "
                           ": (" +
                               x + ", " + x + ", " + w + ", " + row + ", " +
                               row + ") -> " + x +
                               "\n%dw, %db = nn.layer_norm_grad_weight %g, "
                               "%x, %m, %s : (" +
                               x + ", " + x + ", " + row + ", " + row +
                               ") -> (" + sums + ", " + sums + ")",
                           "%d, %dw, %db"),
                {5808, 5808, 528, 44, 44, 5808, 1056, 1056}, GetParam()),
        5);
}

/// Sums of f32, of several blocks.
TEST_P(GpuMutants, Sums) {
  std::string rows = "tensor<259x40xf32>", sums = "tensor<40xf32>";
  check(compile("columns",
                kernelText("columns", "%x: " + rows, sums,
                           "%y = nn.sum_rows %x : (" + rows + ") -> " + sums,
                           "%y"),
                {259 * 40 * 4, 40 * 4}, GetParam()),
        2);
  std::string many = "tensor<9001xf32>", one = "tensor<f32>";
  check(compile("reduce",
                kernelText("reduce", "%x: " + many, one,
                           "%y = nn.sum %x : (" + many + ") -> " + one, "%y"),
                {9001 * 4, 4}, GetParam()),
        2);
  std::string parts = "tensor<3xf32>", run = "tensor<66048xf32>";
  check(compile("segments",
                kernelText("segments", "%x: " + run, parts,
                           "%y = nn.segment_sums %x {segments = array<i64: "
                           "128, 65792, 128>} : (" +
                               run + ") -> " + parts,
                           "%y"),
                {66048 * 4, 12}, GetParam()),
        1);
  std::string two = "tensor<2xf32>", most = "tensor<66001xf32>";
  check(compile("block sums",
                kernelText("block_sums", "%x: " + most, two,
                           "%y = nn.square_sums %x : (" + most + ") -> " + two,
                           "%y"),
                {66001 * 4, 8}, GetParam()),
        1);
}

/// Maxima of pieces, which several warps find.
TEST_P(GpuMutants, Maxima) {
  std::string run = "tensor<66048xf32>", maxima = "tensor<1x3xf32>";
  check(compile("maxima",
                kernelText("segments", "%x: " + run, maxima,
                           "%y = nn.segment_maxima %x {counts = array<i64: "
                           "128, 65792, 100>} : (" +
                               run + ") -> " + maxima,
                           "%y"),
                {66048 * 4, 12}, GetParam()),
        1);
}

/// Sums of f64, whose pieces several warps add.
TEST_P(GpuMutants, SignScales) {
  SignSizes sizes{{128, 65800, 70}, 1};
  check(compile("sign scales", sizes.textOf(signs::scales, 1),
                {sizes.bucket() * 4, 4, 12}, GetParam()),
        1);
}

TEST_P(GpuMutants, EmbeddingGrad) {
  // More positions than a block sorts at once, and than it lists for a row.
  std::string grad = "tensor<2100x4xf32>", table = "tensor<7x4xf32>";
  std::string types = grad + ", tensor<2100xi32>";
  Kernel kernel = compile(
      "embedding grad",
      kernelText("scatter", "%g: " + grad + ", %ids: tensor<2100xi32>", table,
                 "%y = nn.embedding_grad %g[%ids] : (" + types + ") -> " +
                     table,
                 "%y"),
      {2100 * 4 * 4, 2100 * 4, 7 * 4 * 4}, GetParam());
  for (int32_t i = 0; i < 2100; ++i) {
    int32_t id = i * i % 9;
    std::memcpy(&kernel.buffers[1][i * sizeof(id)], &id, sizeof(id));
  }
  check(kernel, 9);
}

/// Attention with one head over `seq` tokens, or its gradient. With `block`, it
/// has a layout of blocks of this size.
Kernel attention(int64_t seq, int64_t headDim, const std::string &element,
                 bool isGradient, const char *mask, const char *chip,
                 int64_t block = 0) {
  auto tensor = [&](int64_t columns) {
    return "tensor<1x" + std::to_string(seq) + "x" + std::to_string(columns) +
           "x" + element + ">";
  };
  std::string x = tensor(3 * headDim), y = tensor(headDim);
  std::string lse = "tensor<1x1x" + std::to_string(seq) + "xf32>";
  std::string attributes =
      std::string(" {heads = #nn.heads<1, scale = 0.25>, mask = #nn.mask<") +
      mask;
  int64_t bytes = seq * headDim * (element == "f32" ? 4 : 2);
  std::string argument, operand, type;
  std::vector<int64_t> layoutBytes;
  if (block) {
    int64_t blocks = llvm::divideCeil(seq, block);
    layoutBytes.push_back(blocks * 4);
    type = ", tensor<1x" + std::to_string(blocks) + "x1xi32>";
    argument = ", %layout: " + type.substr(2);
    operand = " layout %layout";
    attributes += ", block = " + std::to_string(block) + ", density = 0.5";
  }
  attributes += ">} : (";
  auto buffers = [&](std::vector<int64_t> inputs,
                     const std::vector<int64_t> &results) {
    inputs.insert(inputs.end(), layoutBytes.begin(), layoutBytes.end());
    inputs.insert(inputs.end(), results.begin(), results.end());
    return inputs;
  };
  if (isGradient)
    return compile("attention grad " + element,
                   kernelText("attention",
                              "%g: " + y + ", %x: " + x + ", %y: " + y +
                                  ", %lse: " + lse + argument,
                              x,
                              "%d = nn.attention_grad %g, %x forward %y lse "
                              "%lse" +
                                  operand + attributes + y + ", " + x + ", " +
                                  y + ", " + lse + type + ") -> " + x,
                              "%d"),
                   buffers({bytes, 3 * bytes, bytes, seq * 4}, {3 * bytes}),
                   chip);
  return compile("attention " + element,
                 kernelText("attention", "%x: " + x + argument, y + ", " + lse,
                            "%y, %lse = nn.attention %x" + operand +
                                attributes + x + type + ") -> (" + y + ", " +
                                lse + ")",
                            "%y, %lse"),
                 buffers({3 * bytes}, {bytes, seq * 4}), chip);
}

/// Several blocks of keys, and of queries; two launches of the gradient.
TEST_P(GpuMutants, Attention) {
  check(attention(150, 16, "bf16", false, "full", GetParam()), 15);
  check(attention(70, 4, "f32", true, "causal", GetParam()), 46);
  check(attention(150, 16, "bf16", true, "full", GetParam()), 37);
}

/// Two warps share the list of blocks, and a tile holds two of them.
TEST_P(GpuMutants, AttentionWithLayouts) {
  for (bool isGradient : {false, true})
    check(attention(150, 16, "bf16", isGradient, "full", GetParam(),
                    /*block=*/32),
          isGradient ? 38 : 11);
}

/// Features in slices: tiles take turns in the same bytes.
TEST_P(GpuMutants, AttentionInSlices) {
  for (bool isGradient : {false, true})
    check(attention(20, 264, "bf16", isGradient, "full", GetParam()),
          isGradient ? 38 : 11, /*leavesCopies=*/true);
}

INSTANTIATE_TEST_SUITE_P(Chips, GpuMutants, testing::Values("sm_80", "sm_90"));

} // namespace
