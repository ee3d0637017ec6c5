//===- ExplainVerb.cpp - heddle explain -----------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the plan from a compiled binary, and prints its memory, kernels,
// communication and schedule.
//
//===----------------------------------------------------------------------===//

#include "ExplainCluster.h"
#include "ExplainKernels.h"
#include "ExplainLaunches.h"
#include "ExplainModules.h"
#include "ExplainPlan.h"
#include "ExplainProgram.h"
#include "ExplainText.h"
#include "Verbs.h"
#include "heddle/PlanFormat/Format.h"
#include "heddle/PlanFormat/Serving.h"
#include "heddle/runtime/core/Loader.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/File.h"
#include "report/Drawings.h"
#include "report/ReportData.h"
#include <algorithm>
#include <iostream>
#include <map>
#include <utility>

using namespace heddle;
using namespace heddle::driver;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Text output
//===----------------------------------------------------------------------===//

static void printSummary(const plan::Plan &plan) {
  std::vector<std::vector<std::string>> rows = {
      {"plan", plan.hash},
      {"model", plan.family + ", " + std::to_string(plan.parameters) +
                    " parameters, vocabulary " +
                    std::to_string(plan.vocabSize)}};
  if (plan.findProgram(plan::ProgramKind::Train)) {
    rows.push_back({"batch", std::to_string(plan.batch) + " = " +
                                 std::to_string(plan.microBatch) + " x " +
                                 std::to_string(plan.accumulate) +
                                 " micro-batches, " + std::to_string(plan.seq) +
                                 " tokens a row"});
    rows.push_back(
        {"numbers", plan.precision + ", " + plan.optimizer.type + ", clip " +
                        formatNumber("%g", plan.optimizer.gradientClipping) +
                        ", recompute " + plan.recompute});
  } else {
    if (std::string texts = plan::describeServing(plan); !texts.empty())
      rows.push_back({"serves", texts});
    rows.push_back({"numbers", plan.precision});
  }
  rows.push_back(
      {"machine",
       (plan.device == plan::DeviceKind::Cuda
            ? plan.target
            : plan.march + ", " + std::to_string(plan.threads) + " threads") +
           ", " + meshText(plan.mesh)});
  rows.push_back(
      {"weights",
       plan.weights.random
           ? "random, seed " + std::to_string(plan.weights.seed)
           : plan.weights.directory + ", header " + plan.weights.headerHash});
  rows.push_back({"phases", CLI::detail::join(plan.phases, ", ")});
  printTable(rows);
  for (const plan::Program &program : plan.programs)
    printTable({{"program", program.name, formatFlops(program.flops)}});
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
  for (plan::MemoryKind kind : plan::memoryKinds) {
    if (plan.memory.peakBytes(kind) == 0)
      continue;
    std::string of = kind == plan::MemoryKind::Device
                         ? ""
                         : " in " + std::string(plan::nameOf(kind));
    for (plan::FileRole role : plan::fileRoles)
      if (kind == plan::MemoryKind::File && plan.memory.fileBytes[role] > 0)
        add("file of " + std::string(plan::nameOf(role)),
            plan.memory.fileBytes[role]);
    add("= persistent" + of, plan.memory.persistentBytes[kind]);
    add("+ arena" + of, plan.memory.arenaBytes[kind]);
    if (kind == plan::MemoryKind::Pinned && plan.memory.stagingBytes > 0)
      add("+ staging" + of, plan.memory.stagingBytes);
    add("= peak" + of, plan.memory.peakBytes(kind));
  }
  printTable(rows);
}

/// Names the kinds of data that the copies in `line` transfer, for example
/// `optimizer`. If there are several kinds, the result has the bytes of each:
/// `optimizer 25.11 MiB, saved 8.01 MiB`.
static std::string rolesOf(const rt::MoveLine &line) {
  std::string text;
  for (const auto &[role, bytes] : line.bytesOf) {
    text += (text.empty() ? "" : ", ") + std::string(plan::nameOf(role));
    if (line.bytesOf.size() > 1)
      text += " " + plan::formatBytes(bytes);
  }
  return text;
}

/// Prints how much of the copies runs at the same time as kernels, and how much
/// memory prefetching takes.
static void printOverlap(const std::vector<rt::MoveLine> &lines) {
  std::vector<std::vector<std::string>> rows = {
      {"from", "to", "beside kernels", "under way at once"}};
  for (const rt::MoveLine &line : lines)
    rows.push_back({plan::nameOf(line.from), plan::nameOf(line.to),
                    plan::formatBytes(line.besideKernels),
                    plan::formatBytes(line.mostUnderWay)});
  std::cout << "\nof these\n";
  printTable(rows);
}

static void printMoves(const plan::Plan &plan) {
  std::vector<std::vector<std::string>> rows = {
      {"from", "to", "copies", "moved", "", "of"}};
  for (const rt::MoveLine &line : movesOf(plan))
    rows.push_back({plan::nameOf(line.from), plan::nameOf(line.to),
                    std::to_string(line.copies), plan::formatBytes(line.bytes),
                    "(" + std::to_string(line.bytes) + " bytes)",
                    rolesOf(line)});
  if (rows.size() == 1)
    return;
  std::cout << "\nmoved between kinds of memory per step\n";
  printTable(rows);
  for (const rt::MoveLine &line : movesOf(plan))
    if (line.bytesOfParts > 0)
      std::cout
          << "  at most " << plan::formatBytes(line.bytesOfParts)
          << " of these: rows of a table of which ranks have a part each, "
             "and read their own\n";
  printOverlap(movesOf(plan));
  rt::HostUpdates host = hostUpdatesOf(plan);
  if (host.elements == 0)
    return;
  auto each = [&](int64_t bytes) {
    char text[32];
    snprintf(text, sizeof text, "%.2f", double(bytes) / double(host.elements));
    return std::string(text);
  };
  std::cout << "updates on the host: " << host.elements << " elements, "
            << each(host.toHost) << " bytes there and " << each(host.toDevice)
            << " back for each";
  // The bytes printed above do not include gradients that are offloaded: they
  // are in the host's memory before the update, so the update does not copy
  // them. Mention these gradients.
  if (std::any_of(plan.states.begin(), plan.states.end(),
                  [](const plan::State &state) {
                    return state.role == plan::StateRole::Gradient &&
                           state.memory != plan::MemoryKind::Device;
                  }))
    std::cout << ", beside gradients that wait there";
  if (plan.device == plan::DeviceKind::Cuda)
    std::cout << "; " << host.besideKernels << " of them beside kernels";
  std::cout << "\n";
}

/// Returns the plural of the name for a command's kind, for example "launches".
static const char *pluralOf(const plan::Command &command) {
  using namespace plan::command;
  return command.visit([](const Launch &) { return "launches"; },
                       [](const Call &) { return "calls"; },
                       [](const Loop &) { return "loops"; },
                       [](const Copy &) { return "copies"; },
                       [](const CopyRows &) { return "copies of rows"; },
                       [](const Fill &) { return "fills"; },
                       [](const Fragments &) { return "schedules"; },
                       [](const Collective &) { return "collectives"; },
                       [](const Record &) { return "records"; },
                       [](const Wait &) { return "waits"; },
                       [](const Settle &) { return "settles"; },
                       [](const Send &) { return "sends"; },
                       [](const Receive &) { return "receives"; },
                       [](const Flush &) { return "flushes"; });
}

/// Counts the commands that a command sequence gives to `stream`. The result
/// has a count for each kind of command: `12 launches, 2 calls`.
static std::string countCommands(const plan::Sequence &sequence,
                                 plan::Stream stream) {
  std::map<size_t, std::pair<int64_t, const char *>> kinds;
  for (const plan::Command &command : sequence.commands)
    if (command.stream == stream) {
      auto &[count, name] = kinds[command.what.index()];
      count += 1;
      name = pluralOf(command);
    }
  std::string text;
  for (const auto &[kind, entry] : kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(entry.first) + " " +
            entry.second;
  return text;
}

static void printCommunication(const plan::Plan &plan, int64_t rank,
                               const cost::ClusterCost *cost) {
  if (plan.mesh.ranks() == 1)
    return;
  std::cout << "\ncommunication of rank " << rank << " per step\n";
  std::vector<std::vector<std::string>> rows = {
      {"axis", "calls", "sent", cost ? "time" : "", "kind"}};
  int64_t sum = 0;
  double seconds = 0;
  for (const rt::TrafficLine &line : rt::sumByKind(trafficOf(plan, rank))) {
    double time = cost ? secondsOf(line, *cost) : 0;
    rows.push_back({line.axes, std::to_string(line.calls),
                    plan::formatBytes(line.bytesSent),
                    time > 0 ? formatSeconds(time) : "", line.kind});
    sum += line.bytesSent;
    seconds += time;
  }
  rows.push_back({"total", "", plan::formatBytes(sum),
                  seconds > 0 ? formatSeconds(seconds) : "",
                  "(" + std::to_string(sum) + " bytes)"});
  printTable(rows);
}

static void printPrograms(const plan::Plan &plan) {
  std::cout << "\nprograms\n";
  for (const plan::Program &program : plan.programs)
    std::cout << "  " << program.name << " runs "
              << plan.sequences.at(program.sequence).name << "\n";
  std::vector<std::vector<std::string>> rows = {
      {"sequence", "frame", "stream", "commands"}};
  for (const plan::Sequence &sequence : plan.sequences) {
    std::string name = sequence.name;
    std::string frame = plan::formatBytes(sequence.frameBytes);
    for (plan::Stream stream : plan::streams)
      if (std::string text = countCommands(sequence, stream); !text.empty())
        rows.push_back({std::exchange(name, ""), std::exchange(frame, ""),
                        plan::nameOf(stream), text});
    if (!name.empty())
      rows.push_back({name, frame, "", "nothing"});
  }
  printTable(rows);
}

namespace {

/// More levels than modules have.
constexpr int64_t mostDepth = 64;

/// The command line of `heddle explain`.
struct ExplainFlags {
  std::string path, trace, cluster, program, target, svg, output;
  bool json = false, kernels = false, draft = false, modules = false;
  int64_t rank = 0, depth = mostDepth, context = 0;
};

} // namespace

/// Returns the binary's code and plan for the requested target. The default is
/// the first target, or the first GPU target if a flag needs GPU code.
static rt::Binary readTarget(const ExplainFlags &flags) {
  std::vector<rt::Binary> targets = rt::readTargets(flags.path);
  std::string names;
  for (rt::Binary &target : targets) {
    const plan::Plan &plan = target.plan;
    bool isAsked = flags.target.empty() || plan.target == flags.target;
    if (isAsked && (!flags.kernels || plan.device == plan::DeviceKind::Cuda))
      return std::move(target);
    names += (names.empty() ? "" : ", ") + plan.target;
  }
  if (flags.kernels)
    fail("H0189",
         "--kernels is about kernels of GPUs, and " + flags.path + " holds " +
             (flags.target.empty() ? names : flags.target),
         "leave it out, or compile with --target sm_90");
  fail("H0189",
       "--target " + flags.target + ": " + flags.path + " holds " + names,
       "name one that it holds");
}

static int explainKernels(const ExplainFlags &flags) {
  rt::Binary target = readTarget(flags);
  if (flags.json)
    std::cout << describeLaunches(target, flags.program, flags.context).dump(2)
              << "\n";
  else
    printLaunches(target, flags.program, flags.context);
  return 0;
}

/// Reads the plan of the model. With --draft, reads the plan of its draft model
/// instead.
static plan::Plan readPlan(const ExplainFlags &flags) {
  if (!flags.draft)
    return readTarget(flags).plan;
  std::optional<rt::Binary> draft = rt::readDraft(flags.path);
  if (!draft)
    fail("H0189", "--draft: " + flags.path + " holds no draft",
         "leave it out, or compile with --draft DIR");
  return std::move(draft->plan);
}

/// Prints `all`, with the costs of modules if the user asks for them.
static void printJson(json all, const plan::Plan &plan,
                      const ExplainFlags &flags) {
  if (flags.modules)
    all["modules"] = describeModules(plan, flags.program, flags.depth);
  std::cout << all.dump(2) << "\n";
}

/// Draws one picture of the rank whose stage the plan has selected.
static std::string drawPicture(const plan::Plan &plan,
                               const ExplainFlags &flags,
                               const cost::Cluster *cluster) {
  RankExplanation said(plan, flags.rank, cluster, "");
  if (flags.svg == "transfers")
    return drawTransfers(said.toJson(), /*isStandalone=*/true);
  if (flags.svg == "mesh")
    return drawMesh(plan, cluster, /*isStandalone=*/true);
  if (flags.svg == "schedule") {
    std::optional<StepSchedule> measured;
    if (!flags.trace.empty())
      measured.emplace(plan, flags.trace, nullptr);
    return drawSchedule(plan, said.schedule, measured ? &*measured : nullptr,
                        said.cost(), /*isStandalone=*/true);
  }
  if (flags.svg == "layout") {
    std::vector<std::string> pictures = drawLayouts(plan);
    if (pictures.empty())
      fail("H0189", "--svg layout: the plan has no layout of attention",
           "compile with --attention-layout FILE, or draw another picture");
    return stackLayouts(pictures);
  }
  const plan::Program *program =
      flags.program.empty() ? said.program : &programOf(plan, flags.program);
  if (!program)
    fail("H0189", "--svg memory: the plan has no program",
         "draw another picture");
  ProgramTimeline timeline = timelineOf(plan, *program);
  return drawMemory(timeline, timeline.memory.front(),
                    budgetOf(plan, plan::MemoryKind::Device, cluster),
                    "rank " + std::to_string(flags.rank),
                    /*isStandalone=*/true);
}

/// Writes the picture that --svg names.
static int explainAsPicture(const plan::Plan &plan, const ExplainFlags &flags) {
  if (flags.output.empty())
    fail("H0113", "--svg " + flags.svg + ": there is no output",
         "add -o F.svg");
  io::requireApart({{"BINARY", flags.path},
                    {"--cluster", flags.cluster},
                    {"--trace", flags.trace}},
                   {{"-o", flags.output}});
  io::requireWritableOutput(flags.output);
  std::optional<cost::Cluster> cluster = clusterOf(plan, flags.cluster);
  io::writeText(flags.output,
                drawPicture(plan, flags, cluster ? &*cluster : nullptr));
  return 0;
}

static int explain(const ExplainFlags &flags) {
  if (flags.svg.empty() && !flags.output.empty())
    fail("H0113", "-o names a picture, and --svg does not say which",
         "add --svg memory, or send the text to a file with >");
  for (auto [isGiven, name] :
       {std::pair(flags.json, "--json"), std::pair(flags.kernels, "--kernels"),
        std::pair(flags.modules, "--modules")})
    if (!flags.svg.empty() && isGiven)
      fail("H0113", std::string(name) + ": --svg draws a picture alone",
           std::string("leave out --svg, or ") + name);
  if (flags.kernels)
    return explainKernels(flags);
  plan::Plan plan = readPlan(flags);
  int64_t ranks = plan.mesh.ranks(), rank = flags.rank;
  if (rank < 0 || rank >= ranks)
    fail("H0113",
         "--rank " + std::to_string(rank) + ": the plan has " +
             std::to_string(ranks) + " rank(s)",
         ranks == 1 ? "use --rank 0"
                    : "use --rank 0 to --rank " + std::to_string(ranks - 1));
  plan.selectStage(plan.mesh.stageOf(rank));
  if (!flags.svg.empty())
    return explainAsPicture(plan, flags);
  if (flags.modules && !flags.json) {
    printModules(plan, flags.program, flags.depth, rank);
    return 0;
  }
  if (!flags.program.empty()) {
    if (!flags.trace.empty() || !flags.cluster.empty())
      fail("H0189", "--program shows one program on this machine",
           "leave out --trace and --cluster");
    if (flags.json)
      printJson(describeProgram(plan, flags.program), plan, flags);
    else
      printProgram(plan, flags.program);
    return 0;
  }
  std::optional<cost::Cluster> cluster = clusterOf(plan, flags.cluster);
  RankExplanation said(plan, rank, cluster ? &*cluster : nullptr, flags.trace);
  const cost::ClusterCost *known = said.cost();
  if (known && known->hasTimes() && known->isHostUnrated())
    std::cerr << "warning: " << warnOfHostUpdates(*cluster) << "\n";
  if (flags.json) {
    printJson(said.toJson(), plan, flags);
    return 0;
  }
  printSummary(plan);
  printKernels(plan);
  if (said.program)
    printStepLaunches(plan, *said.program);
  printMemory(plan);
  printMoves(plan);
  if (cluster)
    printCluster(plan, *cluster);
  printCommunication(plan, rank, known);
  said.schedule.print();
  said.bound.print();
  said.drops.print();
  said.layouts.print();
  printPhases(plan, rank, known);
  printPrograms(plan);
  return 0;
}

void driver::addExplainVerb(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App *verb =
      app.add_subcommand("explain", "Read the plan of a binary back out");
  io::addFlag(*verb, "BINARY", flags->path, io::range::path(),
              "A compiled binary")
      ->required()
      ->default_str("");
  verb->add_flag("--json", flags->json, "One JSON object, exact bytes");
  verb->add_flag("--kernels", flags->kernels,
                 "The kernels of a GPU: launches, registers, occupancy, bytes "
                 "and sectors");
  verb->add_flag("--draft", flags->draft,
                 "The draft that guesses tokens, in place of its target");
  io::addFlag(*verb, "--program", flags->program, io::range::text(),
              "One program, as decode/8: its kernels, the bytes that it must "
              "move, its time at least")
      ->default_str("all");
  io::addFlag(*verb, "--context", flags->context, io::range::count(1),
              "With --kernels --program: positions of a sequence")
      ->default_str("the most");
  CLI::Option *modules = verb->add_flag(
      "--modules", flags->modules,
      "Parameters, MACs, FLOPs and bytes of each module of the model");
  io::addFlag(*verb, "--depth", flags->depth,
              io::ValueRange::integers(0, mostDepth),
              "With --modules: how many levels below the model to show")
      ->default_str("all")
      ->needs(modules);
  io::addFlag(*verb, "--target", flags->target, io::range::text(),
              "Which of the targets that the binary was compiled for")
      ->default_str("the first");
  io::addFlag(*verb, "--rank", flags->rank,
              io::ValueRange::integers(0, (1 << 20) - 1),
              "The rank to explain");
  io::addFlag(*verb, "--cluster", flags->cluster, io::range::path(),
              "Machines whose times are given (.json)")
      ->default_str("that of heddle compile --cluster");
  io::addFlag(*verb, "--trace", flags->trace, io::range::path(),
              "Replay the schedule with the times that BINARY train "
              "--trace FILE measured")
      ->default_str("none");
  io::addFlag(*verb, "--svg", flags->svg,
              io::ValueRange::choices(
                  {"memory", "schedule", "transfers", "mesh", "layout"}),
              "Draw a picture: memory over the commands of a program, the "
              "schedule, transfers, the mesh, or layouts of attention")
      ->default_str("none");
  io::addFlag(*verb, "-o,--output", flags->output, io::range::path(),
              "With --svg: the picture to write (.svg)")
      ->default_str("none");
  verb->callback(
      [flags, &action] { action = [flags] { return explain(*flags); }; });
}
