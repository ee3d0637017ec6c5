//===- Settings.cpp - Settings of the emulated GPUs -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses and checks the environment variables.
//
//===----------------------------------------------------------------------===//

#include "emulator/cuda/Settings.h"
#include "heddle/emulator/cuda/Environment.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

using namespace heddle;
using namespace heddle::rt;
using namespace heddle::rt::cuda;

static const Chip chips[] = {
    {"sm_80", "Emulated A100 (sm_80)", 8, 0, 108, 167936, 166912, 41943040,
     int64_t(40) << 30, 1410000, 1215000, 5120},
    {"sm_90", "Emulated H100 (sm_90)", 9, 0, 132, 233472, 232448, 52428800,
     int64_t(80) << 30, 1980000, 2619000, 5120}};

/// The largest number of devices, and of multiprocessors.
static constexpr int64_t mostOfDevices = 1024;

/// Converts `text` to a number. Returns -1 if it is not a number.
static int64_t numberIn(std::string_view text) {
  int64_t value = -1;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? value : -1;
}

static void readOrder(std::string_view text, Settings &settings) {
  using Order = Settings::Order;
  if (text == "late")
    settings.order = Order::Late;
  else if (text == "early")
    settings.order = Order::Early;
  else if (text.substr(0, 5) == "seed:" && numberIn(text.substr(5)) >= 0) {
    settings.order = Order::Seed;
    settings.seed = uint64_t(numberIn(text.substr(5)));
  } else
    throw "HEDDLE_EMULATE is early, late or seed:NUMBER, not '" +
        std::string(text) + "'";
}

/// Reads which signal the process gets at which event. For example,
/// "kill:cuMemAlloc_v2:3" is SIGKILL at call 3 of that function, and
/// "stop:kernel:20" is SIGSTOP at launch 20. Both are counted from 0.
static bool readSignal(std::string_view text, Settings &settings) {
  size_t first = text.find(':'), last = text.rfind(':');
  std::string_view kind = text.substr(0, first);
  if ((kind != "kill" && kind != "stop") || first + 1 >= last ||
      last == text.npos)
    return false;
  settings.signal = kind == "kill" ? SIGKILL : SIGSTOP;
  settings.signalAt = text.substr(first + 1, last - first - 1);
  settings.signalNumber = numberIn(text.substr(last + 1));
  return settings.signalNumber >= 0;
}

static void readFault(std::string_view text, Settings &settings) {
  std::string_view kind = text.substr(0, text.find(':'));
  bool hasNumber = kind.size() < text.size();
  int64_t number = hasNumber ? numberIn(text.substr(kind.size() + 1)) : -1;
  if (kind == "old-driver" && !hasNumber)
    settings.driver = 11040;
  else if (kind == "no-device" && !hasNumber)
    settings.devices = 0;
  else if (kind == "lt-refuse" || kind == "lt-error")
    return; // The emulated cuBLASLt reads this one.
  else if (kind == "little-memory" && number >= 0)
    settings.freeBytes = number;
  else if ((kind == "nccl-error" && number >= 0) ||
           (kind == "old-nccl" && !hasNumber))
    return; // The emulated NCCL reads this one.
  else if ((kind == "lost-device" || kind == "ecc") && number >= 0) {
    settings.faultAt = number;
    settings.isFaultEcc = kind == "ecc";
  } else if (!readSignal(text, settings))
    throw "HEDDLE_EMULATE_FAULT is old-driver, no-device, little-memory:BYTES, "
          "lost-device:LAUNCH, ecc:LAUNCH, old-nccl, nccl-error:CALL, "
          "lt-refuse:EPILOGUE, "
          "lt-error:PRODUCT, kill:EVENT:NUMBER or stop:EVENT:NUMBER, not '" +
        std::string(text) + "'";
}

/// The PTX version of each CUDA version is from the release notes of the PTX
/// ISA.
int cuda::newestPtx(int version) {
  constexpr std::pair<int, int> all[] = {{11040, 74}, {12000, 80}, {12010, 81},
                                         {12020, 82}, {12030, 83}, {12040, 84},
                                         {12050, 85}, {12060, 85}, {12070, 86},
                                         {12080, 87}, {12090, 88}, {13000, 90}};
  for (auto [cuda, ptx] : all)
    if (cuda == version)
      return ptx;
  return 0;
}

/// Converts a version of CUDA such as "12.4" to a number such as 12040. Returns
/// -1 if `text` is not a version.
static int versionIn(std::string_view text) {
  size_t point = text.find('.');
  if (point == text.npos)
    return -1;
  int64_t major = numberIn(text.substr(0, point));
  int64_t minor = numberIn(text.substr(point + 1));
  bool isIn = major > 0 && major < 100 && minor >= 0 && minor < 10;
  return isIn ? int(1000 * major + 10 * minor) : -1;
}

/// Returns the number of ranks on node `node`, from a list of the ranks on each
/// node in SLURM's notation. For example, "2(x3),1" says that three nodes have
/// two ranks and the fourth has one. Returns -1 if the list does not say.
static int64_t ranksOfNode(std::string_view list, int64_t node) {
  while (node >= 0 && !list.empty()) {
    std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    size_t repeat = entry.find("(x");
    int64_t nodes = 1;
    if (repeat != entry.npos && entry.back() == ')')
      nodes = numberIn(entry.substr(repeat + 2, entry.size() - repeat - 3));
    if (nodes < 1)
      return -1;
    if (node < nodes)
      return numberIn(entry.substr(0, repeat));
    node -= nodes;
  }
  return -1;
}

/// Returns the number of devices: one for each rank that a launcher has started
/// on this machine.
static int devicesForRanks() {
  for (const char *name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"})
    if (const char *size = std::getenv(name))
      if (int64_t ranks = numberIn(size); ranks > 0)
        return int(ranks);
  const char *list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  const char *node = std::getenv("SLURM_NODEID");
  if (list)
    if (int64_t ranks = ranksOfNode(list, node ? numberIn(node) : 0); ranks > 0)
      return int(std::min<int64_t>(ranks, mostOfDevices));
  return 1;
}

/// Returns the value of an environment variable, or `missing`.
static std::string_view variable(const char *name, std::string_view missing) {
  const char *value = std::getenv(name);
  return value ? std::string_view(value) : missing;
}

/// Reads a variable with a number from 1 to `mostOfDevices`. Without it,
/// `count` stays as it is.
static void readCount(const char *name, int &count) {
  std::string_view text = variable(name, "");
  if (text.empty())
    return;
  int64_t number = numberIn(text);
  if (number < 1 || number > mostOfDevices)
    throw std::string(name) + " is a number from 1 to " +
        std::to_string(mostOfDevices) + ", not '" + std::string(text) + "'";
  count = int(number);
}

Settings Settings::fromEnvironment() {
  Settings settings;
  std::string_view target = variable("HEDDLE_EMULATE_CHIP", "sm_90");
  for (const Chip &chip : chips)
    if (target == chip.target)
      settings.chip = &chip;
  if (!settings.chip)
    throw "HEDDLE_EMULATE_CHIP is sm_80 or sm_90, not '" + std::string(target) +
        "'";
  settings.multiprocessors = settings.chip->multiprocessors;
  readCount("HEDDLE_EMULATE_MULTIPROCESSORS", settings.multiprocessors);
  settings.devices = devicesForRanks();
  int64_t queues = numberIn(variable("CUDA_DEVICE_MAX_CONNECTIONS", ""));
  if (queues >= 1 && queues <= 32)
    settings.queues = int(queues);
  readCount("HEDDLE_EMULATE_DEVICES", settings.devices);
  std::string_view driver = variable("HEDDLE_EMULATE_DRIVER", "12.0");
  settings.driver = versionIn(driver);
  if (!newestPtx(settings.driver))
    throw "HEDDLE_EMULATE_DRIVER is a version of CUDA from 12.0 to 12.9, 11.4 "
          "or 13.0, not '" +
        std::string(driver) + "'";
  readOrder(variable("HEDDLE_EMULATE", "late"), settings);
  std::string_view fault = variable("HEDDLE_EMULATE_FAULT", "");
  if (!fault.empty())
    readFault(fault, settings);
  settings.counts = variable("HEDDLE_EMULATE_COUNTS", "");
  if (std::string wrong = emulator::Options::problemOfEnvironment();
      !wrong.empty())
    throw wrong;
  settings.machine = emulator::Options::fromEnvironment();
  settings.machine.counts = !settings.counts.empty();
  return settings;
}

std::string cuda::problemOfEnvironment() {
  try {
    Settings::fromEnvironment();
    return "";
  } catch (const std::string &wrong) {
    return wrong;
  }
}
