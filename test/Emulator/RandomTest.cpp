//===- RandomTest.cpp - Random programs in the PTX machine ----------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random programs of branches, loops and exits that depend on the thread, with
// more registers than are live at once. Compares the machine's paths and shared
// rows with an interpreter that executes one thread after the other.
//
//===----------------------------------------------------------------------===//

#include "PtxRun.h"
#include "gtest/gtest.h"

#include <array>
#include <random>

using namespace heddle::test;

namespace {
constexpr int numRegisters = 24;

/// A thread of the interpreter.
struct Thread {
  std::array<uint32_t, numRegisters> values;
  bool isDone = false;
};
using Step = std::function<void(Thread &)>;

class Program {
public:
  explicit Program(unsigned seed) : random(seed) {
    for (int i = 0; i < numRegisters; ++i) {
      uint32_t factor = random() % 9, offset = random() % 50;
      text += "mad.lo.u32 " + name(i) + ", %tid, " + std::to_string(factor) +
              ", " + std::to_string(offset) + ";\n";
      start.push_back([=](uint32_t tid) { return tid * factor + offset; });
    }
    body = sequence(3);
  }

  std::string ptxText() const {
    std::string all = ".visible .entry k(.param .u64 out)\n{\n"
                      ".reg .b32 %x<24>; .reg .b32 %tid; .reg .b64 %to;\n";
    all += declarations + "mov.u32 %tid, %tid.x;\n" + text +
           "ld.param.u64 %to, [out];\nmad.wide.u32 %to, %tid, 96, %to;\n";
    for (int i = 0; i < numRegisters; ++i)
      all += "st.global.u32 [%to+" + std::to_string(4 * i) + "], " + name(i) +
             ";\n";
    return ptx(all + "end: ret;\n}\n");
  }

  /// The registers at the end; zeros if the thread exits early.
  std::array<uint32_t, numRegisters> walk(uint32_t tid) const {
    Thread thread;
    for (int i = 0; i < numRegisters; ++i)
      thread.values[i] = start[i](tid);
    body(thread);
    return thread.isDone ? std::array<uint32_t, numRegisters>() : thread.values;
  }

private:
  static std::string name(int i) { return "%x" + std::to_string(i); }
  int pick() { return static_cast<int>(random() % numRegisters); }
  std::string fresh(const std::string &kind, const std::string &type) {
    std::string made = "%" + kind + std::to_string(count++);
    declarations += ".reg ." + type + " " + made + ";\n";
    return made;
  }

  /// A random comparison of two registers. `predicate` gets its predicate in
  /// PTX.
  std::function<bool(const Thread &)> condition(std::string &predicate) {
    int a = pick(), b = pick();
    bool isLess = random() % 2;
    predicate = fresh("p", "pred");
    text += std::string("setp.") + (isLess ? "lt" : "eq") + ".u32 " +
            predicate + ", " + name(a) + ", " + name(b) + ";\n";
    return [=](const Thread &thread) {
      uint32_t x = thread.values[a], y = thread.values[b];
      return isLess ? x < y : x == y;
    };
  }

  /// to = f(a, b), through a register with a short lifetime.
  Step arithmetic(const std::string &guard) {
    struct Form {
      const char *text;
      uint32_t (*f)(uint32_t, uint32_t);
    };
    static const Form forms[] = {
        {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
        {"sub.u32", [](uint32_t a, uint32_t b) { return a - b; }},
        {"mul.lo.u32", [](uint32_t a, uint32_t b) { return a * b; }},
        {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
        {"min.u32", [](uint32_t a, uint32_t b) { return a < b ? a : b; }}};
    const Form &form = forms[random() % 5];
    int to = pick(), a = pick(), b = pick();
    std::string passing = fresh("t", "b32");
    text += std::string(form.text) + " " + passing + ", " + name(a) + ", " +
            name(b) + ";\n" + guard + "mov.u32 " + name(to) + ", " + passing +
            ";\n";
    return [=](Thread &thread) {
      thread.values[to] = form.f(thread.values[a], thread.values[b]);
    };
  }

  Step guarded() {
    std::string predicate;
    auto holds = condition(predicate);
    bool negated = random() % 2;
    Step step = arithmetic((negated ? "@!" : "@") + predicate + " ");
    return [=](Thread &thread) {
      // The condition comes first, since the step may change its operands.
      if (holds(thread) != negated)
        step(thread);
    };
  }

  Step branch(int depth) {
    std::string predicate, label = std::to_string(count++);
    auto holds = condition(predicate);
    text += "@" + predicate + " bra then" + label + ";\n";
    Step otherwise = sequence(depth - 1);
    text += "bra.uni join" + label + ";\nthen" + label + ":\n";
    Step then = sequence(depth - 1);
    text += "join" + label + ":\n";
    return [=](Thread &thread) { (holds(thread) ? then : otherwise)(thread); };
  }

  /// One to four iterations, depending on a register's low bits.
  Step loop(int depth) {
    std::string counter = fresh("c", "b32"), predicate = fresh("p", "pred");
    std::string label = std::to_string(count++);
    int by = pick();
    text +=
        "and.b32 " + counter + ", " + name(by) + ", 3;\nloop" + label + ":\n";
    Step step = sequence(depth - 1);
    text += "setp.eq.u32 " + predicate + ", " + counter + ", 0;\nsub.u32 " +
            counter + ", " + counter + ", 1;\n@!" + predicate + " bra loop" +
            label + ";\n";
    return [=](Thread &thread) {
      for (uint32_t left = thread.values[by] & 3;; --left) {
        step(thread);
        if (thread.isDone || left == 0)
          return;
      }
    };
  }

  Step leave() {
    std::string predicate;
    auto holds = condition(predicate);
    text += "@" + predicate + (random() % 2 ? " ret;\n" : " bra end;\n");
    return [=](Thread &thread) { thread.isDone |= holds(thread); };
  }

  Step sequence(int depth) {
    std::vector<Step> steps;
    for (int i = 2 + random() % 4; i > 0; --i) {
      unsigned choice = random() % 12;
      steps.push_back(depth > 0 && choice < 3   ? branch(depth)
                      : depth > 0 && choice < 5 ? loop(depth)
                      : choice == 5             ? leave()
                      : choice < 8              ? guarded()
                                                : arithmetic(""));
    }
    return [=](Thread &thread) {
      for (const Step &step : steps)
        if (!thread.isDone)
          step(thread);
    };
  }

  std::mt19937 random;
  std::string text, declarations;
  int count = 0;
  std::vector<std::function<uint32_t(uint32_t)>> start;
  Step body;
};

TEST(PtxRandom, Programs) {
  size_t finished = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    Program program(seed);
    PtxRun run;
    run.text = program.ptxText();
    run.block = {45, 1, 1};
    std::vector<uint32_t> out(45 * numRegisters);
    ASSERT_EQ(run.run(out), "") << run.text;
    for (uint32_t tid = 0; tid < 45; ++tid) {
      auto expected = program.walk(tid);
      for (int i = 0; i < numRegisters; ++i) {
        finished += expected[i] != 0;
        ASSERT_EQ(out[tid * numRegisters + i], expected[i])
            << "seed " << seed << ", thread " << tid << ", %x" << i << "\n"
            << run.text;
      }
    }
  }
  // Enough threads reach the end for the test to be meaningful.
  EXPECT_GT(finished, 300u * 45 * numRegisters / 5);
}

} // namespace
