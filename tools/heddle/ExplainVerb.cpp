//===- ExplainVerb.cpp - heddle explain -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the plan of a compiled binary back out.
//
//===----------------------------------------------------------------------===//

#include "Verbs.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/io/Diagnostic.h"
#include <algorithm>
#include <iostream>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

/// The rank of an axis in the strategy; 1 when it is not said.
static int64_t axisSize(const plan::Plan &plan, const char *key) {
  return plan.strategy.value(key, int64_t(1));
}

static json meshOf(const plan::Plan &plan) {
  return {{"pipe", axisSize(plan, "pipe")},
          {"data", axisSize(plan, "data")},
          {"seq", axisSize(plan, "sequence")},
          {"tensor", axisSize(plan, "tensor")}};
}

static int64_t ranksOf(const plan::Plan &plan) {
  return axisSize(plan, "pipe") * axisSize(plan, "data") *
         axisSize(plan, "sequence") * axisSize(plan, "tensor");
}

/// The program whose step the figures are about.
static const plan::Program *mainProgram(const plan::Plan &plan) {
  if (const plan::Program *train = plan.findProgram("train"))
    return train;
  return plan.programs.empty() ? nullptr : &plan.programs.front();
}

/// Launches of a kernel per training step.
static int64_t callsOf(const plan::Plan &plan, size_t kernel) {
  return kernel < plan.kernelCalls.size() ? plan.kernelCalls[kernel] : 0;
}

static json explainJson(const plan::Plan &plan) {
  json phases = json::array(), kernels = json::array();
  for (const plan::PhaseTime &phase : plan.phases)
    phases.push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    kernels.push_back({{"name", plan.kernels[i].name},
                       {"ops", plan.kernels[i].ops},
                       {"flops", plan.kernels[i].flops},
                       {"bytes", plan.kernels[i].bytes},
                       {"calls", callsOf(plan, i)}});
  json owners = json::object();
  for (const plan::Owner &owner : plan.memory.owners)
    owners[owner.name] = owner.bytes;
  const plan::Program *program = mainProgram(plan);
  return {{"plan", plan.hash},
          {"parameters", plan.parameters},
          {"mesh", meshOf(plan)},
          {"ranks", ranksOf(plan)},
          {"phases", phases},
          {"kernels", kernels},
          {"memory",
           {{"arena", plan.memory.arenaBytes},
            {"persistent", plan.memory.persistentBytes},
            {"peak", plan.memory.peakBytes()},
            {"owners", owners}}},
          {"communication", json::array()},
          {"schedule", plan.strategy.value("schedule", std::string("1f1b"))},
          {"bubble", 0.0},
          {"flops_per_step", program ? program->flops : 0.0}};
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

static std::string formatNumber(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

static std::string formatFlops(double flops) {
  static const char *units[] = {"", "K", "M", "G", "T", "P"};
  int unit = 0;
  while (flops >= 1000 && unit < 5) {
    flops /= 1000;
    ++unit;
  }
  return formatNumber("%.2f ", flops) + units[unit] + "FLOP";
}

static std::string padded(const std::string &text, size_t width, bool left) {
  std::string fill(width > text.size() ? width - text.size() : 0, ' ');
  return left ? text + fill : fill + text;
}

/// Prints rows in aligned columns: the first and the last to the left.
static void printTable(const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const std::vector<std::string> &row : rows) {
    std::string line = " ";
    for (size_t i = 0; i < row.size(); ++i)
      line += " " + padded(row[i], i + 1 == row.size() ? 0 : widths[i],
                           i == 0 || i + 1 == row.size());
    std::cout << line << "\n";
  }
}

static void printSummary(const plan::Plan &plan) {
  std::vector<std::vector<std::string>> rows = {
      {"plan", plan.hash},
      {"model", plan.family + ", " + std::to_string(plan.parameters) +
                    " parameters, vocabulary " +
                    std::to_string(plan.vocabSize)},
      {"batch", std::to_string(plan.batch) + " = " +
                    std::to_string(plan.microBatch) + " x " +
                    std::to_string(plan.accumulate) + " micro-batches, " +
                    std::to_string(plan.seq) + " tokens a row"},
      {"numbers", plan.precision + ", " + plan.optimizer.type + ", clip " +
                      formatNumber("%g", plan.optimizer.gradientClipping) +
                      ", recompute " + plan.recompute},
      {"machine", plan.march + ", " + std::to_string(plan.threads) +
                      " threads, " + std::to_string(ranksOf(plan)) + " rank"},
      {"weights",
       plan.weights.random
           ? "random, seed " + std::to_string(plan.weights.seed)
           : plan.weights.directory + ", header " + plan.weights.headerHash}};
  printTable(rows);
  for (const plan::Program &program : plan.programs)
    printTable({{"program", program.kind, formatFlops(program.flops)}});
}

static void printPhases(const plan::Plan &plan) {
  std::cout << "\nphases\n";
  std::vector<std::vector<std::string>> rows;
  double total = 0;
  for (const plan::PhaseTime &phase : plan.phases) {
    rows.push_back({phase.name, formatNumber("%.3f", phase.seconds), "s"});
    total += phase.seconds;
  }
  rows.push_back({"total", formatNumber("%.3f", total), "s"});
  printTable(rows);
}

static void printKernels(const plan::Plan &plan) {
  std::cout
      << "\nkernels (FLOPs and bytes of one launch, launches per training "
         "step)\n";
  std::vector<std::vector<std::string>> rows = {
      {"kernel", "FLOPs", "bytes", "launches", "scratch", "operations"}};
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const plan::Kernel &kernel = plan.kernels[i];
    rows.push_back({kernel.name, formatFlops(kernel.flops),
                    plan::formatBytes(int64_t(kernel.bytes)),
                    std::to_string(callsOf(plan, i)),
                    plan::formatBytes(kernel.scratchBytes), kernel.ops});
  }
  printTable(rows);
}

static void printMemory(const plan::Plan &plan) {
  std::cout << "\nmemory of a rank\n";
  std::vector<std::vector<std::string>> rows;
  auto add = [&](const std::string &name, int64_t bytes) {
    rows.push_back({name, plan::formatBytes(int64_t(bytes)),
                    "(" + std::to_string(bytes) + " bytes)"});
  };
  for (const plan::Owner &owner : plan.memory.owners)
    add(owner.name, owner.bytes);
  add("= persistent", plan.memory.persistentBytes);
  add("+ arena", plan.memory.arenaBytes);
  add("= peak", plan.memory.peakBytes());
  printTable(rows);
}

/// The commands of a sequence by kind, as `12 launches, 2 calls`.
static std::string countCommands(const plan::Sequence &sequence) {
  using Kind = plan::Command::Kind;
  static const std::vector<std::pair<Kind, const char *>> kinds = {
      {Kind::Launch, "launches"},
      {Kind::Call, "calls"},
      {Kind::Loop, "loops"},
      {Kind::Copy, "copies"},
      {Kind::Fill, "fills"}};
  std::string text;
  for (const auto &[kind, name] : kinds) {
    int64_t count = std::count_if(
        sequence.commands.begin(), sequence.commands.end(),
        [kind = kind](const plan::Command &c) { return c.kind == kind; });
    if (count > 0)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text.empty() ? "nothing" : text;
}

static void printSchedule(const plan::Plan &plan) {
  std::cout << "\nschedule (one rank: no communication, no bubble)\n";
  for (const plan::Program &program : plan.programs)
    std::cout << "  " << program.kind << " runs "
              << plan.sequences.at(program.sequence).name << "\n";
  std::vector<std::vector<std::string>> rows = {
      {"sequence", "frame", "commands"}};
  for (const plan::Sequence &sequence : plan.sequences)
    rows.push_back({sequence.name, plan::formatBytes(sequence.frameBytes),
                    countCommands(sequence)});
  printTable(rows);
}

static int explain(const std::string &path, bool asJson, int64_t rank) {
  plan::Plan plan = rt::readBinary(path).plan;
  if (rank < 0 || rank >= ranksOf(plan))
    fail("H0113",
         "--rank " + std::to_string(rank) + ": the plan has " +
             std::to_string(ranksOf(plan)) + " rank(s)",
         "use --rank 0");
  if (asJson) {
    std::cout << explainJson(plan).dump(2) << "\n";
    return 0;
  }
  printSummary(plan);
  printPhases(plan);
  printKernels(plan);
  printMemory(plan);
  printSchedule(plan);
  return 0;
}

void driver::addExplainVerb(CLI::App &app, Action &action) {
  struct Flags {
    std::string path;
    bool json = false;
    int64_t rank = 0;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *verb =
      app.add_subcommand("explain", "Read the plan of a binary back out");
  verb->add_option("BINARY", flags->path, "A compiled binary")
      ->required()
      ->default_str("");
  verb->add_flag("--json", flags->json, "One JSON object, exact bytes");
  verb->add_option("--rank", flags->rank, "The rank to explain");
  verb->callback([flags, &action] {
    action = [flags] { return explain(flags->path, flags->json, flags->rank); };
  });
}
