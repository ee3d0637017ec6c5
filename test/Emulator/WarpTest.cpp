//===- WarpTest.cpp - Instructions on all lanes of a warp -----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <cmath>
#include <random>

using namespace heddle::test;

namespace {

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

/// Runs a body that computes two values of every lane in %r1 and %r2.
std::vector<std::pair<uint32_t, uint32_t>> lanes(const std::string &body) {
  PtxRun run;
  run.text = kernel(1, body + "mad.wide.u32 %rd1, %r0, 8, %rd0;\n"
                              "st.global.v2.u32 [%rd1], {%r1, %r2};\n");
  std::vector<uint32_t> out(64);
  EXPECT_EQ(run.run(out), "");
  std::vector<std::pair<uint32_t, uint32_t>> result;
  for (int i = 0; i < 32; ++i)
    result.emplace_back(out[2 * i], out[2 * i + 1]);
  return result;
}

TEST(PtxWarp, Shuffles) {
  struct Form {
    const char *text;
    std::function<int(int)> from; ///< The source lane; -1 for the lane itself.
  };
  const Form forms[] = {
      {"up.b32 %r1|%p1, %r3, 5, 0", [](int i) { return i >= 5 ? i - 5 : -1; }},
      {"down.b32 %r1|%p1, %r3, 5, 31",
       [](int i) { return i + 5 <= 31 ? i + 5 : -1; }},
      {"bfly.b32 %r1|%p1, %r3, 9, 31", [](int i) { return i ^ 9; }},
      {"idx.b32 %r1|%p1, %r3, 7, 31", [](int) { return 7; }},
      // Segments of eight lanes: mask 24, clamp 7.
      {"down.b32 %r1|%p1, %r3, 3, 6151",
       [](int i) { return i % 8 + 3 < 8 ? i + 3 : -1; }},
      {"idx.b32 %r1|%p1, %r3, 3, 6151", [](int i) { return i / 8 * 8 + 3; }},
      {"up.b32 %r1|%p1, %r3, 2, 6144",
       [](int i) { return i % 8 >= 2 ? i - 2 : -1; }}};
  for (const Form &form : forms) {
    auto out =
        lanes("mad.lo.u32 %r3, %r0, 3, 100;\nshfl.sync." +
              std::string(form.text) + ", -1;\nselp.u32 %r2, 1, 0, %p1;\n");
    for (int i = 0; i < 32; ++i) {
      int from = form.from(i);
      EXPECT_EQ(out[i].first, 100u + 3 * (from < 0 ? i : from)) << form.text;
      EXPECT_EQ(out[i].second, from < 0 ? 0u : 1u) << form.text << " " << i;
    }
  }
}

TEST(PtxWarp, VotesMatchesReductions) {
  auto out = lanes("setp.gt.u32 %p1, %r0, 20;\n"
                   "vote.sync.ballot.b32 %r1, %p1, -1;\n"
                   "vote.sync.any.pred %p2, %p1, -1;\n"
                   "vote.sync.all.pred %p3, %p1, -1;\n"
                   "vote.sync.uni.pred %p4, !%p1, -1;\n"
                   "selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3;\n"
                   "selp.u32 %r4, 4, 0, %p4; or.b32 %r2, %r2, %r3;\n"
                   "or.b32 %r2, %r2, %r4;\n");
  EXPECT_EQ(out[9], std::pair(0xffe00000u, 1u));
  out = lanes("shr.u32 %r3, %r0, 2;\nmatch.any.sync.b32 %r1, %r3, -1;\n"
              "match.all.sync.b32 %r2|%p1, %r3, -1;\n"
              "@%p1 mov.u32 %r2, 1;\n");
  EXPECT_EQ(out[9], std::pair(0xf00u, 0u));
  out = lanes("sub.s32 %r3, %r0, 7;\nredux.sync.add.s32 %r1, %r3, -1;\n"
              "redux.sync.min.s32 %r2, %r3, -1;\n");
  EXPECT_EQ(out[3], std::pair(32u * 31 / 2 - 7 * 32, uint32_t(-7)));
  out = lanes("sub.s32 %r3, %r0, 7;\nredux.sync.max.u32 %r1, %r3, -1;\n"
              "redux.sync.xor.b32 %r2, %r0, -1;\n");
  EXPECT_EQ(out[3], std::pair(~0u, 0u));
  out = lanes("elect.sync %r1|%p1, -1;\nselp.u32 %r2, 1, 0, %p1;\n");
  EXPECT_EQ(out[0], std::pair(0u, 1u));
  EXPECT_EQ(out[5], std::pair(0u, 0u));
  out = lanes("mov.u32 %r1, 0; mov.u32 %r2, 0; setp.lt.u32 %p1, %r0, 4;\n"
              "@%p1 bra few;\nactivemask.b32 %r1;\nbra.uni done;\n"
              "few: activemask.b32 %r1;\nvote.sync.ballot.b32 %r2, %p1, 15;\n"
              "done:\n");
  EXPECT_EQ(out[1], std::pair(15u, 15u));
  EXPECT_EQ(out[6], std::pair(~15u, 0u));
}

/// The value of an inactive lane is a NaN.
TEST(PtxWarp, LanesThatAreNotAsked) {
  auto out = lanes("setp.lt.u32 %p1, %r0, 4;\nmov.u32 %r1, 7;\n"
                   "@%p1 shfl.sync.down.b32 %r1, %r0, 2, 31, 15;\n"
                   "mov.u32 %r2, 0;\n");
  EXPECT_EQ(out[1].first, 3u);
  EXPECT_EQ(out[2].first, ~0u);
  EXPECT_EQ(out[4].first, 7u);
}

TEST(PtxWarp, LanesThatDoNotCome) {
  PtxRun run;
  run.text = kernel(0, "setp.lt.u32 %p1, %r0, 4;\n@%p1 bra join;\n"
                       "shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\n"
                       "join: add.u32 %r2, %r0, 1;\n");
  std::string fault = run.run();
  EXPECT_TRUE(has(fault, "line 11, shfl.sync.bfly.b32: incomplete operation of "
                         "a warp"))
      << fault;
  run.text = kernel(0, "vote.sync.ballot.b32 %r1, %p1, 1;\n");
  EXPECT_TRUE(has(run.run(), "incomplete operation of a warp"));
}

//===----------------------------------------------------------------------===//
// Matrices, by the formulas of the PTX ISA for element i of a fragment
//===----------------------------------------------------------------------===//

TEST(PtxTensor, LoadAndStoreMatrices) {
  for (bool transposed : {false, true})
    for (int tiles : {1, 2, 4}) {
      std::string registers[] = {"", "{%r1}", "{%r1, %r2}", "",
                                 "{%r1, %r2, %r3, %r4}"};
      std::string form = ".sync.aligned.m8n8.x" + std::to_string(tiles) +
                         (transposed ? ".trans" : "") + ".shared.b16 ";
      PtxRun run;
      run.text = kernel(2,
                        R"(
        mov.u32 %r5, memory; mad.lo.u32 %r6, %r0, 16, %r5;
        mad.wide.u32 %rd2, %r0, 16, %rd0; mad.wide.u32 %rd3, %r0, 16, %rd1;
        ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2];
        st.shared.v4.u32 [%r6], {%r1, %r2, %r3, %r4};
        bar.sync 0;
        ldmatrix)" + form + registers[tiles] +
                            R"(, [%r6];
        bar.sync 0;
        stmatrix)" + form + "[%r6], " +
                            registers[tiles] + R"(;
        bar.sync 0;
        st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};
        mov.u32 %r7, 0;
        ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r6];
        st.global.v4.u32 [%rd3+512], {%r8, %r9, %r10, %r11};
)",
                        512);
      std::vector<uint16_t> in(256), out(512);
      for (int i = 0; i < 256; ++i)
        in[i] = static_cast<uint16_t>(i * 257 + 3);
      ASSERT_EQ(run.run(in, out), "");
      for (int lane = 0; lane < 32; ++lane)
        for (int tile = 0; tile < tiles; ++tile)
          for (int i = 0; i < 2; ++i) {
            int row = lane / 4, column = lane % 4 * 2 + i;
            if (transposed)
              std::swap(row, column);
            EXPECT_EQ(out[lane * 8 + tile * 2 + i],
                      in[tile * 64 + row * 8 + column]);
          }
      for (int i = 0; i < 256; ++i)
        EXPECT_EQ(out[256 + i], in[i]);
    }
}

/// An operand type: bits of an element, and its value.
struct Kind {
  const char *name;
  int bits;
  double (*value)(uint32_t);
};

double bf16(uint32_t bits) { return asFloat(bits << 16); }
double f16(uint32_t bits) {
  int e = bits >> 10 & 31;
  double f = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  return sign * (e ? std::ldexp(f + 1024, e - 25) : std::ldexp(f, -24));
}
double tf32(uint32_t bits) { return asFloat(bits & ~0x1fffu); }
double s8(uint32_t bits) { return static_cast<int8_t>(bits); }
double u8(uint32_t bits) { return static_cast<uint8_t>(bits); }

struct Shape {
  Kind a, b;
  int k;
  const char *sums; ///< Type of C and D.
};

/// The row and the column of element i of a lane's fragment of A; the row of B.
int rowOfA(const Shape &shape, int lane, int i) {
  int perRegister = 32 / shape.a.bits;
  return lane / 4 + (i / perRegister % 2 ? 8 : 0);
}
int columnOf(const Kind &kind, int lane, int i, int registersPerHalf) {
  int perRegister = 32 / kind.bits;
  return lane % 4 * perRegister + i % perRegister +
         i / (perRegister * registersPerHalf) * 4 * perRegister;
}

std::string registerList(char name, int first, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i)
    text +=
        (i ? ", %" : "%") + std::string(1, name) + std::to_string(first + i);
  return text + "}";
}

/// A kernel of one mma, whose operands are loaded lane by lane.
std::string mmaKernel(const Shape &shape) {
  int ofB = shape.k * shape.b.bits / 128, ofA = 2 * ofB;
  int ofC = std::string(shape.sums) == "f16" ? 2 : 4;
  std::string text = "mad.wide.u32 %rd2, %r0, 48, %rd0;\n"
                     "mad.wide.u32 %rd3, %r0, 16, %rd1;\n";
  for (int i = 0; i < ofA + ofB + ofC; ++i)
    text += "ld.global.b32 %r" + std::to_string(10 + i) + ", [%rd2+" +
            std::to_string(4 * i) + "];\n";
  std::string sums = shape.sums;
  text += "mma.sync.aligned.m16n8k" + std::to_string(shape.k) + ".row.col." +
          sums + "." + shape.a.name + "." + shape.b.name + "." + sums + " " +
          registerList('r', 1, ofC) + ", " + registerList('r', 10, ofA) + ", " +
          registerList('r', 10 + ofA, ofB) + ", " +
          registerList('r', 10 + ofA + ofB, ofC) + ";\n";
  for (int i = 0; i < ofC; ++i)
    text += "st.global.b32 [%rd3+" + std::to_string(4 * i) + "], %r" +
            std::to_string(1 + i) + ";\n";
  return kernel(2, text);
}

/// Random bits of a number near one, or a random byte.
uint32_t draw(const Kind &kind, std::mt19937 &random) {
  uint32_t bits = random();
  if (kind.bits == 8)
    return bits & 255;
  if (kind.bits == 32)
    return (bits & 0x80ffffff) | 0x3f000000;
  uint32_t exponent = kind.value == bf16 ? 0x3f00 : 0x3800;
  uint32_t fraction = kind.value == bf16 ? 0x80ff : 0x87ff;
  return (bits & fraction) | exponent;
}

void checkMma(const Shape &shape) {
  SCOPED_TRACE(std::string(shape.a.name) + " " + shape.b.name + " k" +
               std::to_string(shape.k) + " " + shape.sums);
  std::mt19937 random(shape.k);
  bool isByte = shape.a.bits == 8, isHalf = std::string(shape.sums) == "f16";
  int ofB = shape.k * shape.b.bits / 128, ofA = 2 * ofB;
  std::vector<uint32_t> in(12 * 32), out(4 * 32);
  std::vector<double> a(16 * shape.k), b(shape.k * 8), c(16 * 8);
  for (int lane = 0; lane < 32; ++lane) {
    auto fill = [&](const Kind &kind, int first, int count, auto place) {
      int per = 32 / kind.bits;
      for (int i = 0; i < count * per; ++i) {
        uint32_t bits = draw(kind, random);
        in[12 * lane + first + i / per] |= bits << (i % per * kind.bits);
        place(i) = kind.value(bits);
      }
    };
    fill(shape.a, 0, ofA, [&](int i) -> double & {
      return a[rowOfA(shape, lane, i) * shape.k +
               columnOf(shape.a, lane, i, 2)];
    });
    fill(shape.b, ofA, ofB, [&](int i) -> double & {
      return b[columnOf(shape.b, lane, i, 1) * 8 + lane / 4];
    });
    for (int i = 0; i < 4; ++i) {
      double &sum = c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2];
      uint32_t *place = &in[12 * lane + ofA + ofB];
      if (isHalf) {
        uint32_t bits = draw({"f16", 16, f16}, random);
        place[i / 2] |= bits << (i % 2 * 16);
        sum = f16(bits);
      } else if (isByte) {
        place[i] = random() % 1000;
        sum = place[i];
      } else {
        float value = static_cast<float>(random() % 1000) / 77;
        place[i] = static_cast<uint32_t>(bitsOf(value));
        sum = value;
      }
    }
  }
  PtxRun run;
  run.text = mmaKernel(shape);
  ASSERT_EQ(run.run(in, out), "");
  EXPECT_EQ(run.counters.tensorOperations, 2u * 16 * 8 * shape.k);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double expected = c[row * 8 + column], size = std::fabs(expected);
      for (int k = 0; k < shape.k; ++k) {
        double product = a[row * shape.k + k] * b[k * 8 + column];
        expected += product;
        size += std::fabs(product);
      }
      double got = isHalf ? f16(out[4 * lane + i / 2] >> (i % 2 * 16) & 0xffff)
                   : isByte ? double(int32_t(out[4 * lane + i]))
                            : asFloat(out[4 * lane + i]);
      double bound = isByte ? 0 : size * (isHalf ? 0x1p-10 : 0x1p-21);
      ASSERT_NEAR(got, expected, bound) << lane << " " << i;
    }
}

TEST(PtxTensor, Products) {
  Kind b = {"bf16", 16, bf16}, h = {"f16", 16, f16}, t = {"tf32", 32, tf32},
       s = {"s8", 8, s8}, u = {"u8", 8, u8};
  for (const Shape &shape :
       {Shape{b, b, 16, "f32"}, Shape{b, b, 8, "f32"}, Shape{h, h, 16, "f32"},
        Shape{h, h, 8, "f32"}, Shape{h, h, 16, "f16"}, Shape{t, t, 8, "f32"},
        Shape{t, t, 4, "f32"}, Shape{s, s, 32, "s32"}, Shape{u, s, 32, "s32"},
        Shape{s, u, 16, "s32"}, Shape{u, u, 16, "s32"}})
    checkMma(shape);
}

TEST(PtxTensor, WantsAllLanesAndAlignedRows) {
  PtxRun run;
  run.text = kernel(0,
                    "setp.lt.u32 %p1, %r0, 31;\n"
                    "@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, "
                    "[memory];\n",
                    64);
  EXPECT_TRUE(has(run.run(), "only 31 of 32 lanes are here"));
  run.text = kernel(0,
                    "mov.u32 %r5, memory; mad.lo.u32 %r5, %r0, 8, %r5;\n"
                    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r5];",
                    512);
  EXPECT_TRUE(has(run.run(), "not aligned to 16"));
}

} // namespace
