//===- ProgrammaticLaunchTest.cpp - Programmatic dependent launches -------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedCuda.h"
#include "heddle/emulator/cuda/Submit.h"

#include <cstring>

using namespace heddle::rt::cuda;
using namespace heddle::test;

namespace {
/// Parts of kernels' bodies. %rd1 and %rd2 are the addresses of the thread's
/// words in the source and the target, %rd4 that of a tensor map of the source.
/// %r1 is the block and %r2 the thread.
const std::string waits = "griddepcontrol.wait;\n";
const std::string dependents = "griddepcontrol.launch_dependents;\n";
const std::string load = "ld.global.u32 %r4, [%rd1];\n";
const std::string store = "st.global.u32 [%rd2], %r3;\n";

/// Whether a call was right. In some orders of commands it returns the error of
/// a command that was submitted before.
bool isFine(Result result) {
  return result == Success || result == LaunchFailed;
}

/// What a stream does in a test.
struct Step {
  enum Kind { Launch, Fill, Mark, Detour, Library, Sync } kind = Launch;
  std::string body; ///< For Launch: the body of the kernel.
  bool isProgrammatic = false;
  int from = 0, to = 0; ///< The buffers that the step reads and writes.
};
Step plain(const std::string &body, int from, int to) {
  return {Step::Launch, body, false, from, to};
}
Step programmatic(const std::string &body, int from, int to) {
  return {Step::Launch, body, true, from, to};
}

constexpr unsigned blocks = 2, threads = 64;
constexpr size_t bufferBytes = blocks * threads * 4;
constexpr int numBuffers = 4;
/// A larger buffer after the others, with `many` words for each thread.
constexpr int largeBuffer = numBuffers;
constexpr int many = 128;
constexpr size_t memoryBytes = (numBuffers + many) * bufferBytes;

std::string moduleOf(const std::vector<Step> &steps) {
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (size_t i = 0; i < steps.size(); ++i)
    text += ".visible .entry k" + std::to_string(i) +
            R"((.param .u64 from, .param .u64 to,
                .param .align 64 .b8 map[128]) {
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 128 .b8 tile[512];
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
mov.u64 %rd4, map; cvta.param.u64 %rd4, %rd4;
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 64, %r2;
mul.wide.u32 %rd3, %r3, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
)" + steps[i].body +
            "ret;\n}\n";
  return text;
}

class ProgrammaticLaunch : public EmulatedCuda {
protected:
  /// Runs the steps in a stream of a fresh context, directly or as a graph that
  /// is launched twice. Returns the error that the emulator prints.
  std::string run(const std::vector<Step> &steps, bool inGraph) {
    EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), Success);
    EXPECT_EQ(cuInit(0), Success);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
    EXPECT_EQ(cuCtxSetCurrent(context), Success);
    Module module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, moduleOf(steps).c_str()), Success);
    buffers = memory(memoryBytes);
    StreamHandle work = stream();
    if (inGraph)
      EXPECT_EQ(cuStreamBeginCapture_v2(work, CaptureRelaxed), Success);
    testing::internal::CaptureStderr();
    for (size_t i = 0; i < steps.size(); ++i)
      take(steps[i], module, "k" + std::to_string(i), work);
    if (inGraph) {
      Graph graph = nullptr;
      GraphExec exec = nullptr;
      EXPECT_EQ(cuStreamEndCapture(work, &graph), Success);
      EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), Success);
      for (int i = 0; i < 2; ++i)
        EXPECT_TRUE(isFine(cuGraphLaunch(exec, work)));
    }
    Result result = cuStreamSynchronize(work);
    std::string error = testing::internal::GetCapturedStderr();
    EXPECT_EQ(result, error.empty() ? Success : LaunchFailed);
    return error;
  }
  /// Expects that the steps run without an error, in a stream and in a graph.
  void expectNone(const std::vector<Step> &steps) {
    for (bool inGraph : {false, true})
      EXPECT_EQ(run(steps, inGraph), "") << "in a graph: " << inGraph;
  }
  /// Expects an error that has all of `parts`.
  void expectError(const std::vector<Step> &steps,
                   const std::vector<std::string> &parts) {
    for (bool inGraph : {false, true}) {
      std::string error = run(steps, inGraph);
      for (const std::string &part : parts)
        EXPECT_NE(error.find(part), std::string::npos)
            << "in a graph: " << inGraph << ": '" << error << "' has no '"
            << part << "'";
    }
  }
  /// Expects that kernel `reader` races with `writer`.
  void expectRace(const std::vector<Step> &steps, int reader,
                  const std::string &writer) {
    expectError(steps, {"kernel k" + std::to_string(reader),
                        "reads before griddepcontrol.wait the byte at",
                        " that " + writer, "which may still be running"});
  }

  Result launch(const Step &step, Function function, StreamHandle work,
                int value = 1) {
    DevicePointer from = address(step.from), to = address(step.to);
    TensorMapData map;
    uint64_t size = bufferBytes / 4;
    unsigned box = 4, stride = 1;
    EXPECT_EQ(cuTensorMapEncodeTiled(
                  &map, TensorMapInt32, 1, reinterpret_cast<void *>(from),
                  &size, nullptr, &box, &stride, TensorMapInterleaveNone,
                  TensorMapSwizzleNone, TensorMapPromotionNone,
                  TensorMapFillZero),
              Success);
    void *arguments[] = {&from, &to, &map};
    return launch(function, arguments, work, step.isProgrammatic, value);
  }
  /// Launches a kernel, with the attribute and its value if `hasAttribute`.
  static Result launch(Function function, void **arguments, StreamHandle work,
                       bool hasAttribute, int value) {
    LaunchAttribute attribute = {};
    attribute.id = LaunchAttributeProgrammatic;
    attribute.value.programmatic = value;
    LaunchConfig config = {blocks, 1, 1,    threads,    1,
                           1,      0, work, &attribute, hasAttribute};
    return cuLaunchKernelEx(&config, function, arguments, nullptr);
  }
  DevicePointer address(int buffer) const {
    return buffers + buffer * bufferBytes;
  }

  DevicePointer buffers = 0;

private:
  void take(const Step &step, Module module, const std::string &name,
            StreamHandle work) {
    EventHandle mark = nullptr;
    StreamHandle other = nullptr;
    Function function = nullptr;
    switch (step.kind) {
    case Step::Launch:
      EXPECT_EQ(cuModuleGetFunction(&function, module, name.c_str()), Success);
      EXPECT_TRUE(isFine(launch(step, function, work)));
      return;
    case Step::Fill:
      EXPECT_EQ(cuMemsetD8Async(address(step.to), 0, 4, work), Success);
      return;
    case Step::Mark:
      EXPECT_EQ(cuEventCreate(&mark, eventDefault), Success);
      EXPECT_EQ(cuEventRecord(mark, work), Success);
      return;
    case Step::Detour: // The stream waits for another one, which waits for it.
      EXPECT_EQ(cuEventRecord(mark = event(), work), Success);
      EXPECT_EQ(cuStreamWaitEvent(other = stream(), mark, 0), Success);
      EXPECT_EQ(cuMemsetD8Async(address(step.to), 0, 4, other), Success);
      EXPECT_EQ(cuEventRecord(mark = event(), other), Success);
      EXPECT_EQ(cuStreamWaitEvent(work, mark, 0), Success);
      return;
    case Step::Library:
      return submit(step, work);
    case Step::Sync:
      EXPECT_EQ(cuStreamSynchronize(work), Success);
      return;
    }
  }
  void submit(const Step &step, StreamHandle work) {
    EmulatedAccess access = {};
    access.address = address(step.to);
    access.bytes = bufferBytes;
    access.writes = true;
    EmulatedWork product = {};
    product.name = "a product";
    product.accesses = &access;
    product.numAccesses = 1;
    product.run = [](void *) {};
    product.drop = [](void *) {};
    EXPECT_EQ(heddleEmulateSubmit(work, &product), Success);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

TEST_F(ProgrammaticLaunch, TakesTheAttribute) {
  std::vector<Step> steps = {programmatic(waits + store, 0, 1)};
  Module module = nullptr;
  Function function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, moduleOf(steps).c_str()), Success);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "k0"), Success);
  buffers = memory(memoryBytes);
  for (int value : {0, 1})
    EXPECT_EQ(launch(steps[0], function, nullptr, value), Success);
  for (int value : {-1, 2})
    EXPECT_EQ(launch(steps[0], function, nullptr, value), InvalidValue);
  EXPECT_EQ(cuCtxSynchronize(), Success);
}

TEST_F(ProgrammaticLaunch, NeedsAHopperGpu) {
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), Success);
  std::optional<Variable> chip(std::in_place, "HEDDLE_EMULATE_CHIP", "sm_80");
  EXPECT_EQ(cuInit(0), Success);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
  EXPECT_EQ(cuCtxSetCurrent(context), Success);
  Function function = addFunction();
  DevicePointer to = memory(8);
  uint64_t number = 1;
  void *arguments[] = {&to, &number};
  EXPECT_EQ(launch(function, arguments, nullptr, true, 1), NotSupported);
  EXPECT_EQ(launch(function, arguments, nullptr, true, 0), Success);
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), Success);
  chip.reset();
  EXPECT_EQ(cuInit(0), Success);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), Success);
}

//===----------------------------------------------------------------------===//
// Missing and late waits
//===----------------------------------------------------------------------===//

TEST_F(ProgrammaticLaunch, RunsKernelsThatWait) {
  Step first = plain(dependents + store, 0, 1);
  expectNone({first, programmatic(waits + dependents + load + store, 1, 2)});
  expectNone({first, programmatic(dependents + waits + load + store, 1, 2)});
  // The first kernel does not write buffer 0, which has the weights, say.
  expectNone({first, programmatic(load + dependents + waits + store, 0, 1)});
  // Shared memory may change before the wait.
  expectNone({first, programmatic("mov.u32 %r5, tile;\n"
                                  "mad.lo.u32 %r5, %r2, 4, %r5;\n"
                                  "st.shared.u32 [%r5], %r3;\n" +
                                      waits + store,
                                  1, 2)});
}

/// The rules are for programmatic launches that follow a kernel.
TEST_F(ProgrammaticLaunch, OtherLaunchesNeedNotWait) {
  const std::string copy = load + store;
  expectNone({plain(dependents + store, 0, 1), plain(copy, 1, 2)});
  expectNone({programmatic(copy, 1, 2)});
  expectNone({plain(dependents + store, 0, 1),
              {Step::Fill, "", false, 0, 3},
              programmatic(copy, 1, 2)});
  // A launch after a graph.
  Module module = nullptr;
  Function function = nullptr;
  std::vector<Step> steps = {plain(dependents + store, 0, 1),
                             programmatic(copy, 1, 2)};
  EXPECT_EQ(run(steps, /*inGraph=*/false) == "", false);
  EXPECT_EQ(run({steps[0]}, /*inGraph=*/true), "");
  ASSERT_EQ(cuModuleLoadData(&module, moduleOf(steps).c_str()), Success);
  StreamHandle work = stream();
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&function, module, "k0"), Success);
  EXPECT_EQ(launch(steps[0], function, work), Success);
  ASSERT_EQ(cuStreamBeginCapture_v2(work, CaptureRelaxed), Success);
  EXPECT_EQ(launch(steps[0], function, work), Success);
  ASSERT_EQ(cuStreamEndCapture(work, &graph), Success);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), Success);
  EXPECT_EQ(cuGraphLaunch(exec, work), Success);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "k1"), Success);
  EXPECT_EQ(launch(steps[1], function, work), Success);
  EXPECT_EQ(cuStreamSynchronize(work), Success);
}

TEST_F(ProgrammaticLaunch, FindsWarpsThatDoNotWait) {
  for (const char *checks : {"full", "light"}) {
    Variable variable("HEDDLE_EMULATE_CHECK", checks);
    Step first = plain(store, 0, 1);
    expectError({first, programmatic("", 0, 2)},
                {"kernel k1", "ends without griddepcontrol.wait",
                 "block (0, 0, 0), threads 0-31"});
    expectError(
        {first,
         programmatic("setp.gt.u32 %p1, %r2, 31;\n@%p1 ret;\n" + waits, 0, 2)},
        {"ends without griddepcontrol.wait", "threads 32-63"});
    expectError(
        {first, programmatic("setp.eq.u32 %p1, %r1, 0;\n@%p1 " + waits, 0, 2)},
        {"ends without griddepcontrol.wait", "block (1, 0, 0)"});
  }
}

TEST_F(ProgrammaticLaunch, FindsChangesBeforeTheWait) {
  const std::string bulk = "setp.eq.u32 %p1, %r2, 0; mov.u32 %r5, tile;\n"
                           "st.shared.v4.u32 [%r5], {%r1, %r1, %r1, %r1};\n"
                           "fence.proxy.async.shared::cta;\n";
  const std::string bodies[] = {
      store,
      "st.volatile.global.u32 [%rd2], %r3;\n",
      "red.global.add.u32 [%rd2], %r3;\n",
      "atom.global.add.u32 %r4, [%rd2], %r3;\n",
      bulk + "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r5], "
             "16;\n",
      bulk + "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 "
             "[%rd2], [%r5], 16;\n"};
  for (const char *checks : {"full", "light"}) {
    Variable variable("HEDDLE_EMULATE_CHECK", checks);
    Step first = plain(load, 0, 1);
    for (const std::string &body : bodies) {
      // The block's other threads store the same value.
      std::string one = body.find("%p1") == body.npos
                            ? "setp.eq.u32 %p1, %r2, 0;\n@%p1 " + body
                            : "setp.ne.u32 %p2, %r2, 0;\n@%p2 bra after;\n" +
                                  body + "after:\n";
      std::string end = "@%p1 cp.async.bulk.commit_group;\n"
                        "@%p1 cp.async.bulk.wait_group 0;\n";
      expectError({first, programmatic(one + end + waits, 0, 2)},
                  {"kernel k1", "changes global memory before "
                                "griddepcontrol.wait"});
      expectNone({first, programmatic(waits + one + end, 0, 2)});
    }
  }
}

//===----------------------------------------------------------------------===//
// Races
//===----------------------------------------------------------------------===//

TEST_F(ProgrammaticLaunch, FindsReadsBeforeTheWait) {
  // One thread of each block waits for a copy.
  auto copied = [](const std::string &copy) {
    return "mov.u32 %r5, tile; mov.u32 %r6, bar; setp.ne.u32 %p1, %r2, 0;\n"
           "@%p1 bra after;\n"
           "mbarrier.init.shared::cta.b64 [%r6], 1;\n"
           "fence.proxy.async.shared::cta;\n"
           "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 16;\n" +
           copy +
           "again: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r6], 0;\n"
           "@!%p2 bra again;\nafter:\n";
  };
  const std::string bulk =
      copied("cp.async.bulk.shared::cluster.global.mbarrier::"
             "complete_tx::bytes [%r5], [%rd1], 16, [%r6];\n");
  const std::string box =
      copied("mul.lo.u32 %r7, %r1, 64;\n"
             "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::"
             "complete_tx::bytes [%r5], [%rd4, {%r7}], [%r6];\n");
  const std::string async = "mov.u32 %r5, tile; mad.lo.u32 %r5, %r2, 4, %r5;\n"
                            "cp.async.ca.shared.global [%r5], [%rd1], 4;\n"
                            "cp.async.wait_all;\n";
  const std::string bodies[] = {load,
                                "ld.volatile.global.u32 %r4, [%rd1];\n",
                                "ld.u32 %r4, [%rd1];\n",
                                async,
                                bulk,
                                box};
  Step first = plain(dependents + store, 0, 1);
  for (const std::string &body : bodies) {
    Step early = programmatic(body + waits + store, 1, 2);
    expectRace({first, early}, 1, "kernel k0 (launch 0)");
    expectNone({first, programmatic(waits + body + store, 1, 2)});
    // The race detector is left out.
    Variable light("HEDDLE_EMULATE_CHECK", "light");
    expectNone({first, early});
  }
}

TEST_F(ProgrammaticLaunch, FindsReadsBeforeTheWaitInEachOrder) {
  std::vector<Step> steps = {plain(dependents + store, 0, 1),
                             programmatic(load + waits + store, 1, 2)};
  for (const char *order : {"early", "seed:1", "seed:2"}) {
    Variable variable("HEDDLE_EMULATE", order);
    expectRace(steps, 1, "kernel k0");
  }
}

/// The race detector forgets accesses before commands for which the host has
/// waited, if there are too many. It keeps those of kernels that may overlap
/// with a launch that was submitted before the host waited.
TEST_F(ProgrammaticLaunch, RemembersRunningKernels) {
  constexpr int stores = many / 2;
  std::string scattered = "ld.param.u64 %rd2, [to];\n"
                          "mul.wide.u32 %rd3, %r3, " +
                          std::to_string(8 * stores) +
                          ";\nadd.u64 %rd2, %rd2, %rd3;\n";
  for (int i = 0; i < stores; ++i)
    scattered += "st.global.u32 [%rd2+" + std::to_string(8 * i) + "], %r3;\n";
  std::vector<Step> steps = {plain(dependents + store, 0, 1),
                             programmatic(load + waits, 1, 2),
                             plain(scattered, 0, largeBuffer)};
  Module module = nullptr;
  Function functions[3] = {};
  ASSERT_EQ(cuModuleLoadData(&module, moduleOf(steps).c_str()), Success);
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(cuModuleGetFunction(&functions[i], module,
                                  ("k" + std::to_string(i)).c_str()),
              Success);
  buffers = memory(memoryBytes);
  StreamHandle work = stream(), other = stream();
  EventHandle between = event();
  EXPECT_EQ(launch(steps[0], functions[0], work), Success);
  EXPECT_EQ(cuEventRecord(between, work), Success);
  EXPECT_EQ(launch(steps[1], functions[1], work), Success);
  EXPECT_EQ(cuEventSynchronize(between), Success);
  EXPECT_EQ(launch(steps[2], functions[2], other), Success);
  EXPECT_EQ(cuStreamSynchronize(other), Success);
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuStreamSynchronize(work), LaunchFailed);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("kernel k0"),
            std::string::npos);
}

/// Without launch_dependents in any block the next launch begins at the end.
TEST_F(ProgrammaticLaunch, NothingIsConcurrentWithoutDependents) {
  Step early = programmatic(load + waits + store, 1, 2);
  expectNone({plain(store, 0, 1), early});
  // The other block ends before block 1 does.
  std::string one = "setp.eq.u32 %p1, %r1, 1;\n@%p1 " + dependents;
  expectRace({plain(one + store, 0, 1), early}, 1, "kernel k0");
}

TEST_F(ProgrammaticLaunch, FollowsChains) {
  Step first = plain(dependents + store, 0, 1);
  Step last = programmatic(load + waits + store, 1, 3);
  auto between = [](const std::string &body) {
    return programmatic(body, 0, 2);
  };
  // The first kernel may still be running when the last one begins.
  expectRace({first, between(dependents + waits + store), last}, 2,
             "kernel k0");
  expectRace({first, between(dependents + waits + store),
              between(dependents + waits + store), last},
             3, "kernel k0");
  // It has ended when all blocks of the second have waited, or one of them.
  expectNone({first, between(waits + dependents + store), last});
  expectNone({first, between(waits + store), last});
  expectNone({first,
              between("setp.eq.u32 %p1, %r1, 1;\n@%p1 " + dependents + waits +
                      dependents + store),
              last});
  // A launch without the attribute begins when all kernels have ended.
  expectNone({first, plain(dependents + waits, 0, 2), last});
  // The second kernel's bytes are written while the last one begins.
  expectRace({first, between(waits + dependents + store),
              programmatic(load + waits, 2, 3)},
             2, "kernel k1");
}

TEST_F(ProgrammaticLaunch, KnowsWhichKernelsHaveEnded) {
  Step first = plain(dependents + store, 0, 1);
  Step early = programmatic(load + waits + store, 1, 2);
  // The time of an event is no command that the launch waits for.
  expectRace({first, {Step::Mark, "", false, 0, 0}, early}, 2, "kernel k0");
  expectNone({first, {Step::Detour, "", false, 0, 3}, early});
  EXPECT_EQ(run({first, {Step::Sync, "", false, 0, 0}, early}, false), "");
}

/// A product of cuBLASLt, for example, is a kernel that may let the next launch
/// begin at any time.
TEST_F(ProgrammaticLaunch, FollowsKernelsOfLibraries) {
  Step product = {Step::Library, "", false, 0, 1};
  expectRace({product, programmatic(load + waits + store, 1, 2)}, 1,
             "a product");
  expectNone({product, programmatic(load + waits + store, 0, 2)});
  expectError({product, programmatic("", 0, 2)},
              {"ends without griddepcontrol.wait"});
}
