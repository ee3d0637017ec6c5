//===- TrainReports.cpp - Reports on a training run -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainReports.h"
#include "ResidentMemory.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/app/StepParts.h"
#include "heddle/runtime/comm/CommLog.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/TextTable.h"

#include <filesystem>
#include <nlohmann/json.hpp>

using namespace heddle;
using namespace heddle::rt;
using nlohmann::ordered_json;

TrainOptions heddle::rt::withLogs(TrainOptions options,
                                  const plan::Plan &plan) {
  plan::ReportChoice choice = plan::reportsOf(plan);
  if (options.logCsv.empty())
    options.logCsv = choice.logCsv;
  if (options.logTensorBoard.empty())
    options.logTensorBoard = choice.logTensorBoard;
  return options;
}

void heddle::rt::makeLogDirectory(const TrainOptions &options,
                                  const plan::Plan &plan) {
  std::string directory =
      std::filesystem::path(options.logCsv).parent_path().string();
  if (options.logCsv == plan::reportsOf(plan).logCsv && !directory.empty())
    io::makeDirectories(directory);
}

TrainReports::TrainReports(const ReportOptions &options, Job &job)
    : job(job), choice(options.over(plan::reportsOf(job.plan()))) {}

void TrainReports::addParts(StepReport &report,
                            const std::optional<StepParts> &parts) const {
  if (!choice.wallClockBreakdown || !parts)
    return;
  report.parts = parts;
  report.parts->seconds = report.seconds;
}

void TrainReports::begin() {
  if (choice.commsLogger && job.ranks().size() > 1)
    job.ranks().logCommunication();
}

std::vector<TrainReport> TrainReports::finish() {
  std::vector<TrainReport> reports;
  if (choice.commsLogger && job.ranks().size() > 1)
    reports.push_back(reportCommunication());
  if (choice.memoryBreakdown)
    reports.push_back(reportMemory());
  return reports;
}

TrainReport TrainReports::reportCommunication() {
  ordered_json operations = ordered_json::array();
  std::vector<io::TableRow> rows = {
      {"operation", "axes", "ranks", "size", "count", "mean time", "total time",
       "bus bandwidth", "slowest rank", "stragglers"}};
  for (const CommSummary &summary :
       summarize(job.ranks().exchange(job.ranks().communicationLog()))) {
    const CommOperation &operation = summary.operation;
    double mean = summary.seconds / double(summary.count);
    operations.push_back({{"operation", operation.name},
                          {"axes", operation.axes},
                          {"ranks", operation.ranks},
                          {"bytes", operation.bytes},
                          {"count", summary.count},
                          {"time_s", summary.seconds},
                          {"bus_bytes_per_s", summary.busBandwidth()},
                          {"slowest_rank", summary.slowestRank},
                          {"slowest_s", summary.slowestSeconds},
                          {"straggling_s", summary.straggling}});
    char bandwidth[32];
    snprintf(bandwidth, sizeof bandwidth, "%.2f GB/s",
             summary.busBandwidth() / 1e9);
    bool isTimed = summary.seconds > 0;
    auto ifTimed = [&](const std::string &text) {
      return isTimed ? text : std::string("-");
    };
    rows.push_back(
        {operation.name, operation.axes, std::to_string(operation.ranks),
         plan::formatBytes(operation.bytes), std::to_string(summary.count),
         ifTimed(formatMilliseconds(mean)),
         ifTimed(formatMilliseconds(summary.seconds)), ifTimed(bandwidth),
         ifTimed(std::to_string(summary.slowestRank)),
         ifTimed(formatMilliseconds(summary.straggling))});
  }
  TrainReport report{JsonLine("comms"), {"communication of the run"}};
  report.event.addRaw("operations", operations.dump());
  for (const std::string &line : io::tableLines(rows))
    report.lines.push_back(line);
  return report;
}

TrainReport TrainReports::reportMemory() {
  ordered_json owners = ordered_json::array();
  std::vector<io::TableRow> rows = {{"owner", "planned", "resident"}};
  for (const OwnedMemory &memory : ownedMemory(job.session())) {
    bool isKnown = memory.resident >= 0;
    owners.push_back({{"owner", memory.owner}, {"planned", memory.planned}});
    if (isKnown)
      owners.back()["resident"] = memory.resident;
    rows.push_back({memory.owner, plan::formatBytes(memory.planned),
                    isKnown ? plan::formatBytes(memory.resident) : "-"});
  }
  TrainReport report{JsonLine("memory"), {"memory of rank 0"}};
  report.event.addRaw("owners", owners.dump());
  for (const std::string &line : io::tableLines(rows))
    report.lines.push_back(line);
  return report;
}

int64_t TrainReports::mappedBytes() {
  return job.session().mappedBytes() -
         job.plan().memory.peakBytes(plan::MemoryKind::File);
}

std::string TrainReports::peakBytes() {
  const plan::Memory &memory = job.plan().memory;
  int64_t onFile = memory.peakBytes(plan::MemoryKind::File);
  int64_t mapped = mappedBytes();
  std::string all;
  for (const std::string &text : job.ranks().exchange(std::to_string(mapped)))
    all += (all.empty() ? "" : ",") + text;
  std::string file =
      onFile > 0 ? ",\"file\":" + std::to_string(onFile) : std::string();
  return "{\"planned\":" + std::to_string(memory.peakBytes()) +
         ",\"mapped\":" + std::to_string(mapped) + file + ",\"ranks\":[" + all +
         "]}";
}
