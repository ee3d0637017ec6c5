//===- RunPtx.cpp - Runs a kernel of a file of PTX ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: HeddleRunPtx FILE KERNEL GX,GY,GZ BX,BY,BZ SHARED_BYTES ARGUMENT...
//
// With a file alone: reads it, and prints the names of its kernels.
//
// An argument is i32:NUMBER, i64:NUMBER, f32:NUMBER, or buffer:PATH, a file
// whose bytes the kernel gets and that takes those it leaves; a buffer may be
// longer than the kernel touches. memory:PATH is a
// buffer that is no argument. map:SWIZZLE,TYPE,BOX...:SIZES...:PATH is a map of
// a tensor without gaps, of sizes and with a box from the innermost dimension
// on, in the buffer of that path. For tests of other compilers' texts.
//
//===----------------------------------------------------------------------===//

#include "heddle/emulator/ptx/Machine.h"
#include "heddle/emulator/ptx/TensorMap.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

using namespace heddle::emulator;

namespace {
std::vector<char> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Dim3 parseSizes(const char *text) {
  Dim3 sizes;
  if (std::sscanf(text, "%ld,%ld,%ld", &sizes.x, &sizes.y, &sizes.z) != 3)
    throw std::runtime_error(std::string("no three sizes: ") + text);
  return sizes;
}

struct Buffer {
  std::string path;
  std::vector<char> bytes;
};

/// The values of a launch, and the memory behind its pointers.
class Arguments {
public:
  void add(const std::string &text, Launch &launch, GlobalMemory &memory) {
    size_t colon = text.find(':');
    std::string kind = text.substr(0, colon), value = text.substr(colon + 1);
    if (kind == "map") {
      addMap(value, launch);
    } else if (kind == "buffer" || kind == "memory") {
      buffers.push_back({value, readFile(value)});
      Buffer &buffer = buffers.back();
      memory.add(value, buffer.bytes.data(), buffer.bytes.size());
      if (kind == "buffer")
        push(buffer.bytes.data(), launch);
    } else if (kind == "i32") {
      push(static_cast<int32_t>(std::stol(value)), launch);
    } else if (kind == "i64") {
      push(static_cast<int64_t>(std::stoll(value)), launch);
    } else if (kind == "f32") {
      push(std::stof(value), launch);
    } else {
      throw std::runtime_error("unknown argument " + text);
    }
  }

  void writeBack() const {
    for (const Buffer &buffer : buffers)
      std::ofstream(buffer.path, std::ios::binary)
          .write(buffer.bytes.data(),
                 static_cast<std::streamsize>(buffer.bytes.size()));
  }

private:
  static std::vector<uint64_t> numbers(const std::string &text) {
    std::vector<uint64_t> result;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, ',');)
      result.push_back(std::stoull(word));
    return result;
  }

  void addMap(const std::string &text, Launch &launch) {
    size_t first = text.find(':'), second = text.find(':', first + 1);
    std::vector<uint64_t> form = numbers(text.substr(0, first));
    std::vector<uint64_t> sizes =
        numbers(text.substr(first + 1, second - first - 1));
    std::string path = text.substr(second + 1);
    TensorMap map;
    map.swizzle = static_cast<uint8_t>(form[0]);
    map.type = static_cast<uint8_t>(form[1]);
    map.rank = static_cast<uint8_t>(sizes.size());
    uint64_t bytes = static_cast<uint64_t>(map.typeBytes());
    for (size_t i = 0; i < sizes.size(); ++i) {
      map.sizes[i] = sizes[i];
      map.box[i] = static_cast<uint16_t>(form.at(2 + i));
      map.steps[i] = 1;
      if (i)
        map.strides[i - 1] = bytes;
      bytes *= sizes[i];
    }
    for (const Buffer &buffer : buffers)
      if (buffer.path == path)
        map.address = reinterpret_cast<uint64_t>(buffer.bytes.data());
    if (std::string wrong = map.check(); !wrong.empty())
      throw std::runtime_error(wrong);
    maps.push_back(map);
    launch.arguments.push_back(&maps.back());
  }

  template <class T> void push(T value, Launch &launch) {
    values.push_back(0);
    std::memcpy(&values.back(), &value, sizeof(T));
    launch.arguments.push_back(&values.back());
  }

  std::deque<uint64_t> values;
  std::deque<TensorMap> maps;
  std::deque<Buffer> buffers;
};
} // namespace

int main(int argc, char **argv) try {
  if (argc != 2 && argc < 6)
    throw std::runtime_error("usage: HeddleRunPtx FILE KERNEL GRID BLOCK "
                             "SHARED_BYTES ARGUMENT...");
  std::vector<char> text = readFile(argv[1]);
  std::string error;
  auto module = Module::load({text.data(), text.size()}, error);
  if (!module)
    throw std::runtime_error(error);
  if (argc == 2) {
    for (const std::string &name : module->kernels())
      std::cout << name << "\n";
    return 0;
  }
  Launch launch;
  launch.kernel = argv[2];
  launch.grid = parseSizes(argv[3]);
  launch.block = parseSizes(argv[4]);
  launch.sharedBytes = std::stol(argv[5]);
  GlobalMemory memory;
  Arguments arguments;
  for (int i = 6; i < argc; ++i)
    arguments.add(argv[i], launch, memory);
  std::string fault = module->run(launch, memory, Options::fromEnvironment());
  if (!fault.empty())
    throw std::runtime_error(fault);
  arguments.writeBack();
  return 0;
} catch (const std::exception &fault) {
  std::cerr << fault.what() << "\n";
  return 1;
}
