//===- TensorBoard.cpp - TensorBoard event files --------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the log as event files of TensorBoard: TFRecord files with Protocol
// Buffers messages, encoded by hand.
//
//===----------------------------------------------------------------------===//

#include "LogWriters.h"
#include "heddle/runtime/io/File.h"

#include <array>
#include <chrono>
#include <cstring>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

/// Computes CRC-32C byte by byte, with a table of 256 entries.
static uint32_t crc32c(const std::string &bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries;
    for (uint32_t i = 0; i < entries.size(); ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = (entries[i] >> 1) ^ (entries[i] & 1 ? 0x82F63B78u : 0);
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

/// Returns the bytes of a value, lowest first.
template <typename T> static std::string littleEndian(T value) {
  std::string text(sizeof value, '\0');
  std::memcpy(text.data(), &value, sizeof value);
  return text;
}

/// Encodes a record of a TFRecord file: length and data, each with a checksum.
/// The format stores a CRC rotated and with a constant added ("masked"),
/// because the CRC of data that contain CRCs detects errors less well.
static std::string makeRecord(const std::string &data) {
  auto masked = [](const std::string &bytes) {
    uint32_t crc = crc32c(bytes);
    return littleEndian(((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
  };
  std::string length = littleEndian(uint64_t(data.size()));
  return length + masked(length) + data + masked(data);
}

//===----------------------------------------------------------------------===//
// Encoding of messages as Protocol Buffers
//===----------------------------------------------------------------------===//

static std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7)
    text += char(0x80 | (value & 0x7F));
  return text + char(value);
}

namespace {

/// Wire types: how a field's value is encoded.
enum Wire : uint32_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// The fields of the message tensorflow.Event that are used here.
struct Event {
  static std::string tag(uint32_t field, Wire wire) {
    return varint(field << 3 | wire);
  }
  static std::string bytes(uint32_t field, const std::string &value) {
    return tag(field, Bytes) + varint(value.size()) + value;
  }
  static std::string make(double time, int64_t step, const std::string &rest) {
    return tag(1, Fixed64) + littleEndian(time) + tag(2, Varint) +
           varint(uint64_t(step)) + rest;
  }
  /// Event.file_version.
  static std::string version() { return bytes(3, "brain.Event:2"); }
  /// An event at which a run starts (SessionLog.status = START). TensorBoard
  /// then ignores events of other files in the directory from this step on.
  static std::string start() { return bytes(7, tag(1, Varint) + varint(1)); }
  /// Summary.value with Value.tag and Value.simple_value.
  static std::string scalar(const std::string &name, float value) {
    return bytes(1, bytes(1, name) + tag(2, Fixed32) + littleEndian(value));
  }
  /// Event.summary.
  static std::string summary(const std::string &values) {
    return bytes(5, values);
  }
};

class TensorBoardLog : public LogWriter {
public:
  TensorBoardLog(const std::string &directory, int64_t step);
  void write(const JsonLine &event) override;

private:
  void put(int64_t step, const std::string &rest);
  LogFile file;
};

} // namespace

//===----------------------------------------------------------------------===//
// The log
//===----------------------------------------------------------------------===//

static double now() {
  std::chrono::duration<double> time =
      std::chrono::system_clock::now().time_since_epoch();
  return time.count();
}

/// Returns a file name that is new in the directory and sorts after earlier
/// ones.
static std::string newFile(const std::string &directory) {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  std::string start = directory + "/events.out.tfevents." +
                      std::to_string(int64_t(now())) + "." + host.data() + "." +
                      std::to_string(getpid()) + ".";
  int number = 0;
  while (io::pathExists(start + std::to_string(number)))
    ++number;
  return start + std::to_string(number);
}

TensorBoardLog::TensorBoardLog(const std::string &directory, int64_t step) {
  io::makeDirectories(directory);
  file.open(newFile(directory), /*append=*/false, "--log-tensorboard");
  put(0, Event::version());
  put(step + 1, Event::start());
}

void TensorBoardLog::put(int64_t step, const std::string &rest) {
  file.put(makeRecord(Event::make(now(), step, rest)));
}

void TensorBoardLog::write(const JsonLine &event) {
  bool isEval = event.event() == "eval";
  const JsonLine::Field *step = event.find("step");
  if (!step || !step->number || (!isEval && event.event() != "step"))
    return;
  std::string values;
  for (const char *key : {"loss", "perplexity", "grad_norm", "lr",
                          "tokens_per_s", "mfu", "loss_scale"})
    if (const JsonLine::Field *field = event.find(key); field && field->number)
      values += Event::scalar((isEval ? "eval/" : "train/") + std::string(key),
                              float(*field->number));
  put(int64_t(*step->number), Event::summary(values));
}

std::unique_ptr<LogWriter>
heddle::rt::makeTensorBoardLog(const std::string &directory, int64_t step) {
  return std::make_unique<TensorBoardLog>(directory, step);
}
