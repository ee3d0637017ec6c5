//===- EmulatedCublasLtTest.cpp - The emulated cuBLASLt by itself ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products as the runtime asks for them, held against sums in double precision,
// and what the library refuses.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/cublaslt/Library.h"
#include "heddle/emulator/cuda/Calls.h"
#include "heddle/runtime/devices/cuda/ProductCalls.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

namespace {
/// A row-major matrix on the GPU and its values.
struct Operand {
  DevicePointer address = 0;
  std::vector<double> values;
};

class EmulatedCublasLt : public testing::Test {
protected:
  EmulatedCublasLt() {
    EXPECT_EQ(cuInit(0), Success);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
    EXPECT_EQ(cuCtxSetCurrent(context), Success);
    EXPECT_EQ(cuStreamCreate(&stream, streamNonBlocking), Success);
    std::string reason;
    library = ProductLibrary::open(reason);
    EXPECT_NE(library, nullptr) << reason;
  }
  ~EmulatedCublasLt() override {
    library.reset();
    cuDevicePrimaryCtxRelease_v2(0);
  }

  static size_t bytesOf(plan::DType type) {
    return type == plan::DType::BF16 ? 2 : 4;
  }

  Operand make(int64_t count, plan::DType type) {
    Operand made;
    std::vector<char> bytes(count * bytesOf(type));
    std::uniform_real_distribution<float> values(-1, 1);
    for (int64_t i = 0; i < count; ++i) {
      float value = values(random);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      if (type == plan::DType::BF16)
        bits &= 0xffff0000u;
      std::memcpy(&value, &bits, 4);
      made.values.push_back(value);
      if (type == plan::DType::BF16)
        bits >>= 16;
      std::memcpy(bytes.data() + i * bytesOf(type), &bits, bytesOf(type));
    }
    EXPECT_EQ(cuMemAlloc_v2(&made.address, bytes.size()), Success);
    EXPECT_EQ(
        cuMemcpyHtoDAsync_v2(made.address, bytes.data(), bytes.size(), stream),
        Success);
    EXPECT_EQ(cuStreamSynchronize(stream), Success);
    return made;
  }

  std::vector<double> read(const Operand &operand, plan::DType type) {
    std::vector<char> bytes(operand.values.size() * bytesOf(type));
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(bytes.data(), operand.address, bytes.size(),
                                   stream),
              Success);
    EXPECT_EQ(cuStreamSynchronize(stream), Success);
    std::vector<double> values;
    for (size_t i = 0; i < operand.values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + i * bytesOf(type), bytesOf(type));
      if (type == plan::DType::BF16)
        bits <<= 16;
      float value;
      std::memcpy(&value, &bits, 4);
      values.push_back(value);
    }
    return values;
  }

  /// Runs the product, in parts if it consists of several operations. Returns
  /// the largest errors of d and aux, or of the sums of a factor.
  std::pair<double, double> errorsOf(plan::LibraryProduct what,
                                     double leastFlops = 1e30);

  Context context = nullptr;
  StreamHandle stream = nullptr;
  std::unique_ptr<ProductLibrary> library;
  Algorithms known{"", "", ""}; ///< Not saved.
  std::mt19937 random{7};
};

double gelu(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double geluGrad(double x) { return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5; }

plan::LibraryProduct product(int64_t m, int64_t n, int64_t k) {
  plan::LibraryProduct what;
  what.m = m;
  what.n = n;
  what.k = k;
  what.a = 0;
  what.b = 1;
  what.d = 2;
  what.workspaceBytes = 1 << 14;
  return what;
}
/// Rows of `columns` columns with the leading dimension `leading`; 0:
/// contiguous.
struct Rows {
  int64_t columns, leading;
  int64_t at(int64_t row, int64_t column) const {
    return row * (leading > 0 ? leading : columns) + column;
  }
  int64_t end(int64_t rows) const { return at(rows, 0); }
};
} // namespace

std::pair<double, double> EmulatedCublasLt::errorsOf(plan::LibraryProduct what,
                                                     double leastFlops) {
  int64_t m = what.m, n = what.n, k = what.k;
  Rows ofA{what.transA ? m : k, what.lda}, ofB{what.transB ? k : n, what.ldb};
  Rows ofC{n, what.ldc}, ofD{n, what.ldd}, ofAux{n, what.ldaux};
  Operand a = make(ofA.end(what.transA ? k : m), what.type);
  Operand b = make(ofB.end(what.transB ? n : k), what.type);
  Operand d = make(ofD.end(m), what.result), c = make(ofC.end(m), what.result);
  Operand bias = make(n, what.result), aux = make(ofAux.end(m), what.result);
  Operand factorSums = make(what.sumA >= 0 ? m : n, what.result);
  Operand workspace = make(what.workspaceBytes / 4, plan::DType::F32);
  const Operand *all[] = {&a, &b, &d, &c, &bias, &aux, &factorSums};
  void *refs[7];
  for (int i = 0; i < 7; ++i)
    refs[i] = reinterpret_cast<void *>(all[i]->address);
  auto call = ProductCalls::prepare(*library, partsOf(what, leastFlops), known);
  EXPECT_NE(call, nullptr);
  if (!call)
    return {1e9, 1e9};
  EXPECT_EQ(
      call->submit(stream, refs, reinterpret_cast<void *>(workspace.address)),
      cublaslt::Success);
  std::vector<double> actual = read(d, what.result);
  std::vector<double> actualAux = read(aux, what.result);
  bool isGrad = what.end == plan::ProductEnd::GeluTanhGrad;
  double error = 0, auxError = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.values[what.transA ? ofA.at(l, i) : ofA.at(i, l)] *
               b.values[what.transB ? ofB.at(j, l) : ofB.at(l, j)];
      int64_t inAux = ofAux.at(i, j);
      sum += what.c < 0 ? 0 : c.values[ofC.at(i, j)];
      sum += what.bias < 0 ? 0 : bias.values[j];
      double stored = what.aux >= 0 && !isGrad ? sum : aux.values[inAux];
      if (what.end == plan::ProductEnd::GeluTanh)
        sum = gelu(sum);
      else if (isGrad)
        sum *= geluGrad(aux.values[inAux]);
      error = std::max(error, std::abs(sum - actual[ofD.at(i, j)]));
      auxError = std::max(auxError, std::abs(stored - actualAux[inAux]));
    }
  if (what.sumA >= 0 || what.sumB >= 0) {
    auxError = 0;
    std::vector<double> actualSums = read(factorSums, what.result);
    for (size_t i = 0; i < actualSums.size(); ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += what.sumA >= 0
                   ? a.values[what.transA ? ofA.at(l, i) : ofA.at(i, l)]
                   : b.values[what.transB ? ofB.at(i, l) : ofB.at(l, i)];
      auxError = std::max(auxError, std::abs(sum - actualSums[i]));
    }
  }
  for (const Operand *operand : all)
    cuMemFree_v2(operand->address);
  cuMemFree_v2(workspace.address);
  return {error, auxError};
}

TEST_F(EmulatedCublasLt, ComputesWhatAPlanDescribes) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int extras = 0; extras < 4; ++extras) {
        plan::LibraryProduct what = product(37, 41, 53);
        what.transA = transA;
        what.transB = transB;
        what.c = extras & 1 ? 3 : -1;
        what.bias = extras & 2 ? 4 : -1;
        EXPECT_LT(errorsOf(what).first, 1e-5);
        what.type = plan::DType::BF16;
        EXPECT_LT(errorsOf(what).first, 1e-5);
        what.result = plan::DType::BF16;
        EXPECT_LT(errorsOf(what).first, 0.05);
      }
}

/// Each matrix has its own padding.
TEST_F(EmulatedCublasLt, LeavesOutWhatLiesBetweenRows) {
  for (bool trans : {false, true}) {
    plan::LibraryProduct what = product(37, 41, 53);
    what.transA = what.transB = trans;
    what.lda = 56;
    what.ldb = 64;
    what.ldd = 44;
    EXPECT_LT(errorsOf(what).first, 1e-5);
    what.c = 3;
    what.ldc = 48;
    EXPECT_LT(errorsOf(what).first, 1e-5);
    what.c = -1;
    what.end = plan::ProductEnd::GeluTanh;
    what.aux = 5;
    what.ldaux = 72;
    auto [error, auxError] = errorsOf(what);
    EXPECT_LT(error, 1e-5);
    EXPECT_LT(auxError, 1e-5);
  }
}

/// No size is a multiple of eight, but leading dimensions are: n, and m or k,
/// have a remainder.
TEST_F(EmulatedCublasLt, ComputesParts) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (int extras = 0; extras < 8; ++extras) {
        plan::LibraryProduct what = product(37, 41, 53);
        what.type = plan::DType::BF16;
        what.transA = transA;
        what.transB = transB;
        what.lda = what.ldb = 56;
        what.ldd = 48;
        what.ldc = 64;
        what.c = extras & 1 ? 3 : -1;
        what.bias = extras & 2 ? 4 : -1;
        if (extras & 4)
          what.end = plan::ProductEnd::GeluTanh;
        // k is a dimension of contiguous rows of a, of b, or of neither.
        size_t rests = 1 + transA + (!transA || transB);
        EXPECT_EQ(partsOf(what, 0).size(), 1 + rests);
        EXPECT_LT(errorsOf(what, 0).first, 1e-5);
        what.result = plan::DType::BF16;
        // A product that is added in parts would be rounded twice.
        bool isWhole = what.c >= 0 && (!transA || transB);
        EXPECT_EQ(partsOf(what, 0).size(), 1 + rests - isWhole);
        EXPECT_LT(errorsOf(what, 0).first, 0.05);
      }
  plan::LibraryProduct what = product(37, 40, 53);
  what.type = plan::DType::BF16;
  what.lda = 56;
  what.end = plan::ProductEnd::GeluTanhGrad;
  what.aux = 5;
  EXPECT_EQ(partsOf(what, 0).size(), 2u);
  EXPECT_LT(errorsOf(what, 0).first, 1e-5);
}

/// Each part adds its columns to the sums.
TEST_F(EmulatedCublasLt, SumsAFactorInParts) {
  for (bool ofA : {false, true}) {
    plan::LibraryProduct what = product(37, 41, 40);
    what.type = plan::DType::BF16;
    what.transA = true;
    what.lda = what.ldb = what.ldd = 48;
    (ofA ? what.sumA : what.sumB) = 6;
    EXPECT_EQ(partsOf(what, 0).size(), 2u);
    auto [error, sumError] = errorsOf(what, 0);
    EXPECT_LT(error, 1e-5);
    EXPECT_LT(sumError, 1e-5);
  }
}

/// Products that parts do not make faster: small ones, fp32, or unaligned rows.
TEST_F(EmulatedCublasLt, LeavesProductsWhole) {
  plan::LibraryProduct what = product(4096, 50257, 768);
  what.transB = true;
  what.ldd = 50272;
  EXPECT_EQ(partsOf(what).size(), 1u);
  what.tf32 = true;
  EXPECT_EQ(partsOf(what).size(), 2u);
  what.type = what.result = plan::DType::BF16;
  EXPECT_EQ(partsOf(what).size(), 2u);
  what.ldd = 0;
  EXPECT_EQ(partsOf(what).size(), 1u);
  what.ldd = 50272;
  what.m = 16;
  EXPECT_EQ(partsOf(what).size(), 1u);
}

TEST_F(EmulatedCublasLt, ComputesTheEnds) {
  for (int aux : {-1, 5})
    for (int bias : {-1, 4}) {
      plan::LibraryProduct what = product(37, 40, 53);
      what.end = plan::ProductEnd::GeluTanh;
      what.aux = aux;
      what.bias = bias;
      auto [error, auxError] = errorsOf(what);
      EXPECT_LT(error, 1e-5);
      EXPECT_LT(auxError, 1e-5);
    }
  plan::LibraryProduct what = product(37, 40, 53);
  what.end = plan::ProductEnd::GeluTanhGrad;
  what.aux = 5;
  auto [error, auxError] = errorsOf(what);
  EXPECT_LT(error, 1e-5);
  EXPECT_LT(auxError, 1e-9); // aux is read.
}

/// Sums as in the gradients of a weight and its bias: of b for a weight [in,
/// out], of a for a transposed one.
TEST_F(EmulatedCublasLt, SumsAFactor) {
  for (bool ofA : {false, true})
    for (bool transA : {false, true})
      for (int c : {-1, 3}) {
        plan::LibraryProduct what = product(37, 41, 53);
        what.transA = transA;
        what.transB = !transA;
        (ofA ? what.sumA : what.sumB) = 6;
        what.c = c;
        for (plan::DType type : {plan::DType::F32, plan::DType::BF16}) {
          what.type = type;
          auto [error, sumError] = errorsOf(what);
          EXPECT_LT(error, 1e-5);
          EXPECT_LT(sumError, 1e-5);
        }
        what.result = plan::DType::BF16;
        EXPECT_LT(errorsOf(what).second, 0.05);
      }
}

/// Factors in tf32 have 10 bits of fraction.
TEST_F(EmulatedCublasLt, RoundsToTf32WhenItMay) {
  plan::LibraryProduct what = product(37, 41, 300);
  double exact = errorsOf(what).first;
  what.tf32 = true;
  double rounded = errorsOf(what).first;
  EXPECT_GT(rounded, 5 * exact);
  EXPECT_LT(rounded, 300 * 0x1p-10);
}

TEST_F(EmulatedCublasLt, RefusesWhatTheDocumentationDoes) {
  auto isRefused = [&](const plan::LibraryProduct &what) {
    return !ProductCall::prepare(*library, what, known);
  };
  // The leading dimension of aux is a multiple of 8.
  plan::LibraryProduct what = product(8, 41, 16);
  what.end = plan::ProductEnd::GeluTanh;
  EXPECT_FALSE(isRefused(what));
  what.aux = 5;
  EXPECT_TRUE(isRefused(what));
  what.n = 48;
  EXPECT_FALSE(isRefused(what));
  // bf16 from factors in f32 is refused.
  what = product(8, 8, 8);
  what.result = plan::DType::BF16;
  EXPECT_TRUE(isRefused(what));
  // tf32 of bf16 is refused.
  what = product(8, 8, 8);
  what.type = what.result = plan::DType::BF16;
  what.tf32 = true;
  EXPECT_TRUE(isRefused(what));
}

TEST_F(EmulatedCublasLt, RefusesOtherAddresses) {
  plan::LibraryProduct what = product(8, 8, 8);
  auto call = ProductCall::prepare(*library, what, known);
  ASSERT_NE(call, nullptr);
  Operand a = make(80, plan::DType::F32);
  auto at = [&](int64_t offset) {
    return reinterpret_cast<void *>(a.address + offset);
  };
  void *aligned[] = {at(0), at(0), at(0)}, *odd[] = {at(4), at(0), at(0)};
  void *foreign[] = {at(0), at(0), at(256)};
  alignas(256) static char place[256] = {};
  void *host[] = {at(0), place, at(0)};
  EXPECT_EQ(call->submit(stream, aligned, nullptr), cublaslt::Success);
  EXPECT_EQ(call->submit(stream, odd, nullptr), cublaslt::InvalidValue);
  // d is after the end of its allocation.
  EXPECT_NE(call->submit(stream, foreign, nullptr), cublaslt::Success);
  EXPECT_NE(call->submit(stream, host, nullptr), cublaslt::Success);
}

/// Nothing orders these streams.
TEST_F(EmulatedCublasLt, IsHeldAgainstOtherCommands) {
  plan::LibraryProduct what = product(8, 8, 8);
  auto call = ProductCall::prepare(*library, what, known);
  Operand a = make(64, plan::DType::F32), b = make(64, plan::DType::F32);
  Operand d = make(64, plan::DType::F32);
  void *refs[] = {reinterpret_cast<void *>(a.address),
                  reinterpret_cast<void *>(b.address),
                  reinterpret_cast<void *>(d.address)};
  StreamHandle other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, streamNonBlocking), Success);
  ASSERT_EQ(call->submit(stream, refs, nullptr), cublaslt::Success);
  ASSERT_EQ(cuMemsetD8Async(a.address, 0, 4, other), Success);
  testing::internal::CaptureStderr();
  EXPECT_NE(cuCtxSynchronize(), Success);
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("of cuBLASLt, 8 by 8"), std::string::npos) << said;
}

namespace {
/// A directory that the destructor removes.
struct Folder {
  Folder() { EXPECT_NE(mkdtemp(name), nullptr); }
  ~Folder() { std::filesystem::remove_all(name); }
  std::string file() const { return std::string(name) + "/cublaslt-A-GPU-1.0"; }
  char name[32] = "/tmp/heddle-algorithms-XXXXXX";
};

/// An algorithm that needs less alignment than the one that the library chooses
/// here.
cublaslt::Algorithm easyAlgorithm() {
  cublaslt::AlgorithmData choice = {cublaslt::algorithmMark, 0, {4, 4, 4, 4}};
  cublaslt::Algorithm algorithm = {};
  std::memcpy(&algorithm, &choice, sizeof choice);
  return algorithm;
}
} // namespace

TEST_F(EmulatedCublasLt, TakesTheAlgorithmOfAnEarlierRun) {
  Folder folder;
  plan::LibraryProduct what = product(8, 8, 8), other = product(8, 8, 16);
  Algorithms first(folder.name, "A/GPU", "1.0");
  EXPECT_FALSE(first.find(what));
  first.set(what, easyAlgorithm());
  EXPECT_NE(ProductCall::prepare(*library, other, first), nullptr);
  first.save();
  Algorithms second(folder.name, "A/GPU", "1.0");
  EXPECT_TRUE(second.find(what));
  EXPECT_TRUE(second.find(other));
  for (const char *version : {"1.1", "2.0"})
    EXPECT_FALSE(Algorithms(folder.name, "A/GPU", version).find(what));
  EXPECT_FALSE(Algorithms(folder.name, "B", "1.0").find(what));
  auto call = ProductCall::prepare(*library, what, second);
  ASSERT_NE(call, nullptr);
  Operand a = make(80, plan::DType::F32);
  auto *at = reinterpret_cast<char *>(a.address);
  void *refs[] = {at + 4, at, at};
  EXPECT_EQ(call->submit(stream, refs, nullptr), cublaslt::Success);
}

/// An algorithm that the library refuses is chosen again; so is one for another
/// form of the product, or another size of the workspace.
TEST_F(EmulatedCublasLt, LeavesStaleAlgorithmsAlone) {
  plan::LibraryProduct what = product(8, 8, 8);
  cublaslt::Algorithm foreign = easyAlgorithm();
  foreign.data[0] ^= 1;
  known.set(what, foreign);
  ASSERT_NE(ProductCall::prepare(*library, what, known), nullptr);
  EXPECT_NE(known.find(what)->data[0], foreign.data[0]);
  cublaslt::AlgorithmData large = {
      cublaslt::algorithmMark, 1 << 20, {4, 4, 4, 4}};
  std::memcpy(&foreign, &large, sizeof large);
  known.set(what, foreign);
  ASSERT_NE(ProductCall::prepare(*library, what, known), nullptr);
  EXPECT_NE(known.find(what)->data[1], uint64_t(1 << 20));
  plan::LibraryProduct more = what;
  more.workspaceBytes *= 2;
  EXPECT_FALSE(known.find(more));
  more = what;
  more.bias = 4;
  EXPECT_FALSE(known.find(more));
}

TEST_F(EmulatedCublasLt, IgnoresADamagedFile) {
  Folder folder;
  plan::LibraryProduct what = product(8, 8, 8);
  Algorithms first(folder.name, "A/GPU", "1.0");
  first.set(what, easyAlgorithm());
  first.save();
  std::ifstream whole(folder.file(), std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(whole)), {});
  ASSERT_GT(text.size(), 40u);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    std::ofstream(folder.file(), std::ios::binary) << damaged;
    EXPECT_FALSE(Algorithms(folder.name, "A/GPU", "1.0").find(what)) << i;
    std::ofstream(folder.file(), std::ios::binary) << text.substr(0, i);
    EXPECT_FALSE(Algorithms(folder.name, "A/GPU", "1.0").find(what)) << i;
  }
  // The file is written again.
  Algorithms last(folder.name, "A/GPU", "1.0");
  last.set(what, easyAlgorithm());
  last.save();
  EXPECT_TRUE(Algorithms(folder.name, "A/GPU", "1.0").find(what));
}

TEST(CublasLt, CallsWhatNvidiasLibraryHas) {
  if (!*HEDDLE_TEST_CUBLASLT)
    GTEST_SKIP() << "cuBLASLt is not installed";
  void *real = dlopen(HEDDLE_TEST_CUBLASLT, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(real, nullptr) << dlerror();
#define HEDDLE_LOOK_UP(RETURN, NAME, SYMBOL, PARAMETERS)                       \
  EXPECT_NE(dlsym(real, #SYMBOL), nullptr) << #SYMBOL;
  HEDDLE_CUBLASLT_CALLS(HEDDLE_LOOK_UP)
#undef HEDDLE_LOOK_UP
}
