//===- GemmTest.cpp - Matrix products against a reference in double ------ ===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "../Support/AmxEmulation.h"
#include "../Support/GemmRunner.h"
#include "../Support/IsLong.h"
#include "heddle/runtime/io/Float.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace mlir;
using namespace heddle;
using namespace heddle::cpu;
using namespace heddle::test;

namespace {

enum class Kind { F32, BF16, F16 };
constexpr Kind allKinds[] = {Kind::F32, Kind::BF16, Kind::F16};

/// A number in [-1, 1). The standard library's distributions are slow.
float draw(std::mt19937 &random) {
  return static_cast<float>(static_cast<int32_t>(random()) * 0x1p-31);
}

/// A matrix of any of the types, with a guard of NaN around what may be
/// touched.
struct Matrix {
  Kind kind;
  int64_t rows, columns, stride;
  std::vector<char> bytes;

  Matrix(Kind kind, int64_t rows, int64_t columns, int64_t padding,
         std::mt19937 &random)
      : kind(kind), rows(rows), columns(columns), stride(columns + padding),
        bytes(rows * stride * size()) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < stride; ++j)
        set(i, j, j < columns ? draw(random) : NAN);
  }
  int64_t size() const { return kind == Kind::F32 ? 4 : 2; }
  float at(int64_t i, int64_t j) const {
    const char *from = bytes.data() + (i * stride + j) * size();
    float value;
    if (kind == Kind::F32) {
      std::memcpy(&value, from, 4);
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return kind == Kind::F16 ? io::f16ToFloat(bits) : io::bf16ToFloat(bits);
  }
  void set(int64_t i, int64_t j, float value) {
    char *to = bytes.data() + (i * stride + j) * size();
    uint16_t bits =
        kind == Kind::F16 ? io::floatToF16(value) : io::floatToBF16(value);
    if (kind == Kind::F32)
      std::memcpy(to, &value, 4);
    else
      std::memcpy(to, &bits, 2);
  }
};

/// A copy that ends where memory may be read to.
class GuardedCopy {
public:
  explicit GuardedCopy(const std::vector<char> &bytes) {
    size_t page = sysconf(_SC_PAGESIZE);
    size_t whole = (bytes.size() + page - 1) / page * page;
    size = whole + page;
    start = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(start, MAP_FAILED);
    EXPECT_EQ(mprotect(start + whole, page, PROT_NONE), 0);
    data = start + whole - bytes.size();
    std::copy(bytes.begin(), bytes.end(), data);
  }
  ~GuardedCopy() { munmap(start, size); }
  GuardedCopy(const GuardedCopy &) = delete;

  char *data;

private:
  char *start;
  size_t size;
};

struct Case {
  int64_t m, n, k;
  bool transA = false, transB = false;
  Kind a = Kind::F32, b = Kind::F32, c = Kind::F32;
  int64_t padding = 0;
  bool accumulate = false;
  bool epilogue = false;
};

std::string describe(const Case &test) {
  auto name = [](Kind kind) {
    return kind == Kind::F32 ? "f32" : kind == Kind::F16 ? "f16" : "bf16";
  };
  return std::to_string(test.m) + "x" + std::to_string(test.n) + "x" +
         std::to_string(test.k) + (test.transA ? " tA" : "") +
         (test.transB ? " tB" : "") + " " + name(test.a) + "*" + name(test.b) +
         "->" + name(test.c) + (test.accumulate ? " +=" : "") +
         (test.epilogue ? " epilogue" : "");
}

/// A vector of f32 of `from` at an element's index.
Value loadVector(OpBuilder &b, Location loc, Type type, Value from, Value index,
                 Value mask) {
  Value at = b.create<arith::IndexCastOp>(loc, b.getI64Type(), index);
  Value pointer = b.create<LLVM::GEPOp>(loc, from.getType(), b.getF32Type(),
                                        from, ArrayRef<LLVM::GEPArg>(at));
  if (!mask)
    return b.create<LLVM::LoadOp>(loc, type, pointer, 4);
  Value zero = b.create<arith::ConstantOp>(loc, b.getZeroAttr(type));
  return b.create<LLVM::MaskedLoadOp>(loc, type, pointer, mask, zero, 4);
}

/// x + bias[col], where bias is the extra operand; then tanh.
Value biasTanh(OpBuilder &b, Location loc, Value extra, Value acc, Value row,
               Value col, Value mask) {
  Value bias = loadVector(b, loc, acc.getType(), extra, col, mask);
  Value sum = b.create<arith::AddFOp>(loc, acc, bias);
  return b.create<math::TanhOp>(loc, sum);
}

class GemmTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    context = createCodegenContext();
    std::optional<CpuTarget> host = CpuTarget::parse("native");
    StringRef march = GetParam();
    std::optional<CpuTarget> wanted =
        march.starts_with("amx")
            ? emulatedAmxTarget(/*hasFp16=*/march == "amx-fp16")
            : CpuTarget::parse(march);
    if (!host || !wanted || (wanted->hasAvx512 && !host->hasAvx512))
      GTEST_SKIP() << "this machine cannot run " << GetParam();
    target = *wanted;
  }

  Type type(Kind kind) {
    if (kind == Kind::F32)
      return Float32Type::get(context.get());
    if (kind == Kind::F16)
      return Float16Type::get(context.get());
    return BFloat16Type::get(context.get());
  }

  /// Shape and types; strides and sums are left open.
  GemmSpec specOf(const Case &test) {
    GemmSpec spec;
    spec.m = test.m;
    spec.n = test.n;
    spec.k = test.k;
    spec.transA = test.transA;
    spec.transB = test.transB;
    spec.aType = type(test.a);
    spec.bType = type(test.b);
    spec.cType = type(test.c);
    return spec;
  }

  /// Whether products of these types have the same code for another target that
  /// is tested: `amx` is tested with tiles of bf16, `amx-fp16` with those of
  /// fp16, and x86-64-v4 differs from a larger native target by lacking
  /// products of bf16. Long runs take both of the latter, which LLVM may
  /// schedule differently.
  bool isTestedElsewhere(const Case &test) const {
    auto isOf = [&](Kind kind) { return test.a == kind && test.b == kind; };
    if (target.emulatesAmx)
      return !isOf(target.hasAmxFp16 ? Kind::F16 : Kind::BF16);
    bool isPlain = StringRef(GetParam()) == "x86-64-v4";
    return isPlain && !isLong() && !isOf(Kind::BF16);
  }

  void check(const Case &test);
  void checkWeightSlices(const Case &test, int64_t piece);
  void checkFirstRows(const Case &test, int64_t rows);

  std::unique_ptr<MLIRContext> context;
  CpuTarget target;
};

void GemmTest::check(const Case &test) {
  if (isTestedElsewhere(test))
    return;
  SCOPED_TRACE(describe(test));
  std::mt19937 random(17);
  Matrix a(test.a, test.transA ? test.k : test.m, test.transA ? test.m : test.k,
           test.padding, random);
  Matrix b(test.b, test.transB ? test.n : test.k, test.transB ? test.k : test.n,
           test.padding, random);
  Matrix before(test.c, test.m, test.n, test.padding, random);
  std::vector<float> bias(test.n);
  for (float &value : bias)
    value = draw(random);

  GemmSpec spec = specOf(test);
  spec.lda = a.stride;
  spec.ldb = b.stride;
  spec.ldc = before.stride;
  spec.accumulate = test.accumulate;
  RunnerEpilogue epilogue = nullptr;
  if (test.epilogue)
    epilogue = biasTanh;
  GemmRunner runner(*context, spec, target, epilogue);

  GuardedCopy left(a.bytes), right(b.bytes);
  std::vector<char> first;
  for (int64_t threads : {1, 2, 5}) {
    Matrix c = before;
    runner.runAll(left.data, right.data, c.bytes.data(), bias.data(), threads);
    if (threads == 1)
      first = c.bytes;
    EXPECT_TRUE(first == c.bytes) << "depends on the number of threads";
  }

  Matrix c = before;
  c.bytes = first;
  double roundOff = test.c == Kind::BF16  ? 4e-3
                    : test.c == Kind::F16 ? 5e-4
                                          : 0;
  // Of large products, sampled rows and columns: every block has some.
  bool large = test.m * test.n * test.k > 10'000'000;
  int64_t rowStep = large ? 5 : 1, columnStep = large ? 7 : 1;
  for (int64_t i = 0; i < test.m; i += rowStep) {
    for (int64_t j = 0; j < test.n; j += columnStep) {
      double sum = test.accumulate ? before.at(i, j) : 0, size = 1;
      for (int64_t k = 0; k < test.k; ++k) {
        double term =
            static_cast<double>(test.transA ? a.at(k, i) : a.at(i, k)) *
            (test.transB ? b.at(j, k) : b.at(k, j));
        sum += term;
        size += std::abs(term);
      }
      if (test.epilogue)
        sum = std::tanh(sum + bias[j]);
      double error = std::abs(c.at(i, j) - sum);
      ASSERT_LE(error, size * 1e-6 + std::abs(sum) * roundOff)
          << "at " << i << ", " << j << ": " << c.at(i, j) << " for " << sum;
    }
    for (int64_t j = test.n; j < c.stride; ++j)
      ASSERT_TRUE(std::isnan(c.at(i, j))) << "writes beyond row " << i;
  }
}

/// Pieces of K, of which each begins with the sums of the one before, give the
/// bits of the whole product.
void GemmTest::checkWeightSlices(const Case &test, int64_t piece) {
  if (isTestedElsewhere(test))
    return;
  SCOPED_TRACE(describe(test) + " in pieces of " + std::to_string(piece));
  std::mt19937 random(17);
  Matrix a(test.a, test.transA ? test.k : test.m, test.transA ? test.m : test.k,
           0, random);
  Matrix b(test.b, test.transB ? test.n : test.k, test.transB ? test.k : test.n,
           0, random);
  GemmSpec spec = specOf(test);
  spec.cType = type(Kind::F32);
  spec.lda = a.stride;
  spec.ldb = b.stride;
  std::map<std::pair<int64_t, bool>, std::unique_ptr<GemmRunner>> runners;
  auto sumsOf = [&](int64_t first, int64_t end, std::vector<float> before) {
    spec.k = end - first;
    auto init = [&](OpBuilder &b, Location loc, Value extra, Value row,
                    Value col, Value mask) -> Value {
      Value columns = b.create<arith::ConstantIndexOp>(loc, spec.n);
      Value at = b.create<arith::AddIOp>(
          loc, b.create<arith::MulIOp>(loc, row, columns), col);
      auto vector = VectorType::get(target.lanes(), b.getF32Type());
      return loadVector(b, loc, vector, extra, at, mask);
    };
    // Pieces of one length have the same code.
    std::unique_ptr<GemmRunner> &runner = runners[{spec.k, before.empty()}];
    if (!runner)
      runner = std::make_unique<GemmRunner>(*context, spec, target, nullptr,
                                            before.empty() ? RunnerInit()
                                                           : RunnerInit(init));
    std::vector<float> sums(test.m * test.n);
    auto from = [&](Matrix &matrix, bool rowsAreK) {
      return matrix.bytes.data() +
             first * matrix.size() * (rowsAreK ? matrix.stride : 1);
    };
    runner->runAll(from(a, test.transA), from(b, !test.transB), sums.data(),
                   before.data(), 2);
    return sums;
  };
  std::vector<float> sums;
  for (int64_t first = 0; first < test.k; first += piece)
    sums = sumsOf(first, std::min(first + piece, test.k), std::move(sums));
  std::vector<float> whole = sumsOf(0, test.k, {});
  EXPECT_EQ(std::memcmp(sums.data(), whole.data(), whole.size() * 4), 0);
}

/// Fewer rows of a product have the bits that they have in all of it.
void GemmTest::checkFirstRows(const Case &test, int64_t rows) {
  SCOPED_TRACE(describe(test) + ", " + std::to_string(rows) + " rows");
  std::mt19937 random(17);
  Matrix a(test.a, test.m, test.k, 0, random);
  Matrix b(test.b, test.transB ? test.n : test.k, test.transB ? test.k : test.n,
           0, random);
  auto product = [&](int64_t m) {
    GemmSpec spec = specOf(test);
    spec.m = m;
    spec.cType = type(Kind::F32);
    std::vector<float> c(m * test.n);
    GemmRunner(*context, spec, target)
        .runAll(a.bytes.data(), b.bytes.data(), c.data(), nullptr, 2);
    return c;
  };
  std::vector<float> all = product(test.m), few = product(rows);
  EXPECT_EQ(std::memcmp(all.data(), few.data(), few.size() * 4), 0);
}

TEST_P(GemmTest, FewRows) {
  // Each option with every other one: they change at different steps.
  int64_t step = 0;
  const int64_t lengths[] = {1, 2, 31, 64, 257, 1000};
  for (int64_t m : casesOf({1, 3, 8}, {2, 5}))
    for (int64_t n : casesOf({1, 97, 256}, {31, 509}))
      for (bool transB : {false, true})
        for (int64_t k : {lengths[step % 6], lengths[(step + 4) % 6]}) {
          Kind kind = step % 5 < 3    ? Kind::BF16
                      : step % 5 == 3 ? Kind::F16
                                      : Kind::F32;
          Kind result = step % 2 ? Kind::F32 : kind;
          check({m, n, k, /*transA=*/step % 7 < 2, transB, kind, kind, result,
                 /*padding=*/step % 3, /*accumulate=*/step % 4 == 1,
                 /*epilogue=*/step % 11 < 5});
          ++step;
        }
}

TEST_P(GemmTest, FewRowsOfMixedTypes) {
  for (int64_t m : {1, 4})
    for (bool transB : {false, true}) {
      check({m, 77, 75, false, transB, Kind::F32, Kind::BF16, Kind::BF16, 1});
      check({m, 77, 75, false, transB, Kind::F32, Kind::F16, Kind::F16, 1});
      check({m, 77, 75, false, transB, Kind::BF16, Kind::F32, Kind::F32, 1});
      check({m, 77, 75, true, transB, Kind::BF16, Kind::F32, Kind::BF16});
    }
}

TEST_P(GemmTest, FewRowsGoOnFromEarlierSums) {
  for (int64_t m : casesOf({1, 8}, {3}))
    for (bool transB : {false, true}) {
      checkWeightSlices({m, 145, 75, false, transB}, 40);
      for (Kind kind : {Kind::BF16, Kind::F16})
        checkWeightSlices({m, 145, 75, false, transB, kind, kind}, 32);
    }
}

TEST_P(GemmTest, FewRowsHaveTheirBitsAmongMany) {
  for (int64_t rows : {1, 4})
    for (bool transB : {false, true}) {
      checkFirstRows({40, 150, 333, false, transB}, rows);
      // Tiles sum the first and the second values of pairs apart.
      if (!target.hasAmx)
        checkFirstRows({40, 150, 333, false, transB, Kind::BF16, Kind::BF16},
                       rows);
    }
}

TEST_P(GemmTest, GoesOnFromEarlierSums) {
  for (bool trans : {false, true}) {
    int64_t m = trans ? 64 : 37, n = trans ? 96 : 53;
    checkWeightSlices({m, n, 75, trans, !trans}, 17);
    checkWeightSlices({m, n, 1700, trans, trans}, 830);
    checkWeightSlices({m, n, 75, trans, trans, Kind::F16, Kind::F16}, 32);
    for (auto [k, piece] : {std::pair<int64_t, int64_t>{75, 32}, {5003, 1664}})
      checkWeightSlices({m, n, k, trans, trans, Kind::BF16, Kind::BF16}, piece);
  }
}

TEST_P(GemmTest, Transposes) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (auto [m, n, k] : {std::array<int64_t, 3>{64, 96, 64},
                             std::array<int64_t, 3>{37, 53, 41}}) {
        check({m, n, k, transA, transB});
        for (Kind kind : {Kind::BF16, Kind::F16})
          check({m, n, k, transA, transB, kind, kind, Kind::F32});
      }
}

TEST_P(GemmTest, OddSizes) {
  for (int64_t m : casesOf({1, 15, 37}, {13}))
    for (int64_t n : casesOf({1, 33}, {17}))
      for (int64_t k : casesOf({2, 33}, {1})) {
        bool transA = (m + k) % 2, transB = (n + k) % 3 == 0;
        check({m, n, k, transA, transB});
        for (Kind kind : {Kind::BF16, Kind::F16})
          check({m, n, k, transA, transB, kind, kind, kind});
      }
}

TEST_P(GemmTest, PaddedRows) {
  for (Kind kind : allKinds)
    for (bool trans : {false, true})
      check({30, 70, 50, trans, !trans, kind, kind, kind, 5});
}

TEST_P(GemmTest, MixedTypes) {
  for (Kind narrow : {Kind::BF16, Kind::F16})
    for (Kind a : {Kind::F32, narrow})
      for (Kind b : {Kind::F32, narrow})
        for (Kind c : {Kind::F32, narrow})
          for (bool trans : {false, true})
            check({20, 40, 19, trans, !trans, a, b, c, 1});
}

TEST_P(GemmTest, AccumulatesBeforeTheEpilogue) {
  for (Kind kind : allKinds)
    for (int64_t n : {64, 45}) {
      check({19, n, 33, false, false, kind, kind, kind, 0, true, false});
      check({19, n, 33, false, false, kind, kind, kind, 3, false, true});
      check({19, n, 33, true, true, kind, kind, Kind::F32, 0, true, true});
    }
}

TEST_P(GemmTest, CutsK) {
  for (Kind kind : allKinds)
    for (bool trans : {false, true}) {
      check({33, 49, 5003, trans, trans, kind, kind, kind, 0, false, true});
      check({65, 33, 3072, trans, !trans, kind, kind, Kind::F32, 0, true});
    }
}

TEST_P(GemmTest, CutsRowsAndColumns) {
  if (!target.hasAmx) {
    check({600, 200, 770});
    check({100, 1100, 1600, false, true});
    check({1100, 100, 1600, true, false});
  }
  // Blocks of tiles have a third of the values of K, and are emulated.
  int64_t k = target.hasAmx ? 1040 : 2000;
  check({1100, 100, k, true, false, Kind::BF16, Kind::BF16, Kind::F32});
  check({300, 1100, k, false, true, Kind::BF16, Kind::BF16, Kind::BF16});
}

/// How often an object multiplies tiles: tdpbf16ps is VEX.128.F3.0F38.W0 5C,
/// and tdpfp16ps has F2 (`prefix` 3) in place of F3 (2).
size_t countTileProducts(const std::string &object, unsigned char prefix) {
  size_t count = 0;
  for (size_t i = 0; i + 4 < object.size(); ++i) {
    auto byte = [&](size_t at) {
      return static_cast<unsigned char>(object[i + at]);
    };
    count += byte(0) == 0xc4 && byte(1) == 0xe2 && (byte(2) & 0x87) == prefix &&
             byte(3) == 0x5c && byte(4) >= 0xc0;
  }
  return count;
}

TEST(GemmAmxTest, MultipliesTiles) {
  auto context = createCodegenContext();
  GemmSpec spec;
  spec.m = spec.n = spec.k = 64;
  auto count = [&](Type type, StringRef march, unsigned char prefix) {
    spec.aType = spec.bType = spec.cType = type;
    GemmRunner runner(*context, spec, *CpuTarget::parse(march));
    return countTileProducts(runner.object(), prefix);
  };
  auto bf16 = BFloat16Type::get(context.get());
  auto f16 = Float16Type::get(context.get());
  EXPECT_EQ(count(bf16, "amx", 2), 4u);
  EXPECT_EQ(count(bf16, "amx-fp16", 2), 4u);
  EXPECT_EQ(count(bf16, "x86-64-v4", 2), 0u);
  EXPECT_EQ(count(f16, "amx-fp16", 3), 4u);
  EXPECT_EQ(count(f16, "amx", 3), 0u);
}

INSTANTIATE_TEST_SUITE_P(Targets, GemmTest,
                         testing::Values("x86-64-v3", "x86-64-v4", "native",
                                         "amx", "amx-fp16"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
