//===- Bench.cpp - The verb bench -----------------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `bench` runs a program of the binary repeatedly and prints how fast it is.
// This file measures training steps, and BenchDecode.cpp measures generation.
//
//===----------------------------------------------------------------------===//

#include "KernelTimes.h"
#include "Timing.h"
#include "heddle/runtime/app/JobRate.h"
#include "heddle/runtime/app/Progress.h"
#include "heddle/runtime/app/RunLog.h"
#include "heddle/runtime/app/Steps.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/core/Philox.h"

#include <algorithm>
#include <chrono>
#include <deque>

using namespace heddle;
using namespace heddle::rt;

/// Fills the batch with token ids that every vocabulary has.
static void fillTokens(const TrainSteps &steps, int64_t step) {
  uint64_t vocab = steps.batch().vocab;
  steps.tokens(step).fill([&](int64_t index, DataFeed::What what) {
    PhiloxWords words = philox(0, uint64_t(index), uint32_t(step), 0);
    return int32_t(words[what == DataFeed::What::Labels] % vocab);
  });
}

/// Measures training steps. The host may submit a step before the previous one
/// has ended. In this case the step's time begins when the previous step ends.
namespace {
class StepClock {
public:
  StepClock(TrainSteps &steps, int64_t warmup) : steps(steps), warmup(warmup) {}

  /// Submits the next step, and waits until at most `pending` steps are in
  /// flight.
  void run(LaunchTime *times) {
    begins.push_back(now());
    steps.submit(next++, times);
    // Launch times are only complete after the step.
    finish(times ? 0 : steps.maxPending());
  }
  void finish(int64_t pending) {
    while (steps.pending() > pending) {
      StepResult result = steps.finish();
      steps.requireFinite(result);
      bool isMeasured = result.index >= warmup;
      Point begin = {std::max(begins.front().time, last.time),
                     std::max(begins.front().processor, last.processor)};
      begins.pop_front();
      last = now();
      if (!isMeasured)
        continue;
      seconds.push_back(
          std::chrono::duration<double>(last.time - begin.time).count());
      processor.push_back(last.processor - begin.processor);
    }
  }

  std::vector<double> seconds, processor; ///< One value for each measured step.

private:
  struct Point {
    std::chrono::steady_clock::time_point time;
    double processor = 0;
  };
  static Point now() {
    return {std::chrono::steady_clock::now(), processorSeconds()};
  }

  TrainSteps &steps;
  int64_t warmup, next = 0;
  std::deque<Point> begins; ///< When each pending step began.
  Point last;               ///< End of the last finished step.
};
} // namespace

int heddle::rt::runBench(const BenchOptions &options, Ranks &ranks) {
  if (options.decode)
    return runBenchDecode(options, ranks);
  Job job(options.job, ranks);
  const plan::Plan &plan = job.plan();
  std::unique_ptr<TrainSteps> steps;
  ranks.together([&] {
    steps = std::make_unique<TrainSteps>(
        job, TrainSteps::Options{Hyperparameters(plan), plan.weights.seed,
                                 /*steps=*/0, plan::UpdateCounts(),
                                 /*skipsNonfinite=*/false,
                                 /*onlyLastPhase=*/true});
  });
  loadWeights(job, options.job);
  const CommandList &commands = steps->program(0).commands();
  std::vector<LaunchTime> times(options.kernels ? commands.size() : 0);
  KernelTimes kernels(plan);
  JobRate rate = measureJobRate(job, steps->program(0));
  StepClock clock(*steps, options.warmup);
  int64_t sentBefore = 0;
  io::OffloadTraffic trafficBefore;
  for (int64_t i = 0; i < options.warmup + options.steps; ++i) {
    fillTokens(*steps, i);
    ranks.exchange("");
    if (i == options.warmup) {
      sentBefore = ranks.bytesSent();
      job.device().synchronize();
      trafficBefore = job.device().offloadTraffic();
    }
    clock.run(options.kernels ? times.data() : nullptr);
    if (i >= options.warmup && options.kernels)
      kernels.add(commands, times);
  }
  clock.finish(0);
  int64_t sent = (ranks.bytesSent() - sentBefore) / options.steps;
  job.device().synchronize();
  io::OffloadTraffic swapped = job.device().offloadTraffic();
  int64_t read = (swapped.readBytes - trafficBefore.readBytes) / options.steps;
  int64_t written =
      (swapped.writtenBytes - trafficBefore.writtenBytes) / options.steps;
  // Measure the peak FLOP rate again: other programs may have used the cores
  // during the first measurement.
  rate.keepBest(measureJobRate(job, steps->program(0)));
  if (!job.isFirst())
    return 0;
  std::vector<double> &seconds = clock.seconds;
  double median = medianOf(seconds);
  rate.see(rate.stepFlops / seconds.front());
  if (ranks.size() == 1)
    rate.see(kernels.bestRate());
  auto tokens = double(steps->batch().rows * steps->batch().seq);
  JsonLine line("bench");
  line.add("steps", options.steps)
      .add("ranks", ranks.size())
      .add("threads", job.device().threads())
      .add("device", job.device().model())
      .add("median_s", median)
      .add("min_s", seconds.front())
      .add("max_s", seconds.back())
      .add("processor_s", medianOf(clock.processor))
      .add("tokens_per_s", tokens / median)
      .add("bytes_sent", sent)
      .add("file_bytes_read", read)
      .add("file_bytes_written", written)
      .add("flops_per_s", rate.stepFlops / median)
      .add("peak_flops_per_s", rate.peakFlopsPerSecond)
      .add("peak_unit", rate.unit)
      .add("peak_kind", rate.kindOfPeak())
      .add("mfu", rate.stepFlops / median / rate.peakFlopsPerSecond);
  if (options.kernels)
    line.addRaw("kernels", kernels.json());
  if (options.json) {
    printf("%s\n", line.text().c_str());
    return 0;
  }
  std::string each = job.device().model();
  if (each.empty())
    each = std::to_string(job.device().threads()) + " threads";
  printf("%lld steps, %lld x %s: median %.4f s (%.4f to %.4f), %.0f "
         "tokens/s\n",
         static_cast<long long>(options.steps),
         static_cast<long long>(ranks.size()), each.c_str(), median,
         seconds.front(), seconds.back(), tokens / median);
  printf("%.1f GFLOP/s, %.1f%% of the %s peak of %.1f GFLOP/s (%s)\n",
         rate.stepFlops / median / 1e9,
         100 * rate.stepFlops / median / rate.peakFlopsPerSecond,
         rate.kindOfPeak(), rate.peakFlopsPerSecond / 1e9, rate.unit.c_str());
  if (ranks.size() > 1)
    printf("%s sent per step by rank 0\n", formatBytes(sent).c_str());
  if (read > 0 || written > 0)
    printf("%s read from file and %s written to it per step by rank 0\n",
           formatBytes(read).c_str(), formatBytes(written).c_str());
  if (options.kernels)
    kernels.print();
  return 0;
}
