//===- Loader.cpp - Reads a compiled binary -------------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/Loader.h"
#include "heddle/PlanFormat/Draft.h"
#include "heddle/runtime/io/Diagnostic.h"

#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>

using namespace heddle;
using namespace heddle::rt;

static constexpr const char *recompile = "compile the binary again";

namespace {

/// Finds sections of an ELF file by name, and reads only these.
class SectionReader {
public:
  explicit SectionReader(const std::string &path);
  std::optional<std::vector<char>> find(const std::string &name);
  /// Throws if the file is shorter than its header says. This happens if the
  /// program that copied the file was interrupted.
  void requireWhole(const std::string &path) const;

private:
  std::optional<std::vector<char>> read(uint64_t offset, uint64_t count);

  std::ifstream file;
  uint64_t size = 0, wholeSize = 0;
  std::vector<Elf64_Shdr> sections;
  std::vector<char> names;
};

SectionReader::SectionReader(const std::string &path)
    : file(path, std::ios::binary) {
  if (!file)
    fail("H0381", "cannot open " + path, "check the path of the binary");
  file.seekg(0, std::ios::end);
  size = file.tellg();
  auto start = read(0, sizeof(Elf64_Ehdr));
  Elf64_Ehdr header;
  if (!start || memcmp(start->data(), ELFMAG, SELFMAG) != 0)
    return;
  memcpy(&header, start->data(), sizeof(header));
  uint64_t tableBytes = uint64_t(header.e_shnum) * sizeof(Elf64_Shdr);
  // The section table is at the end of the file.
  wholeSize = header.e_shoff + tableBytes;
  auto table = read(header.e_shoff, tableBytes);
  if (!table || header.e_shstrndx >= header.e_shnum)
    return;
  sections.resize(header.e_shnum);
  memcpy(sections.data(), table->data(), table->size());
  const Elf64_Shdr &strings = sections[header.e_shstrndx];
  auto text = read(strings.sh_offset, strings.sh_size);
  if (!text || text->empty() || text->back() != 0)
    sections.clear();
  else
    names = std::move(*text);
}

void SectionReader::requireWhole(const std::string &path) const {
  if (size < wholeSize)
    fail("H0382",
         path + " is cut off: it has " + std::to_string(size) + " of " +
             std::to_string(wholeSize) + " bytes",
         "copy the binary again, or compile it again");
}

std::optional<std::vector<char>> SectionReader::read(uint64_t offset,
                                                     uint64_t count) {
  if (offset > size || count > size - offset)
    return std::nullopt;
  std::vector<char> bytes(count);
  file.seekg(offset);
  if (!file.read(bytes.data(), count))
    return std::nullopt;
  return bytes;
}

std::optional<std::vector<char>> SectionReader::find(const std::string &name) {
  for (const Elf64_Shdr &section : sections)
    if (section.sh_name < names.size() && name == &names[section.sh_name])
      return read(section.sh_offset, section.sh_size);
  return std::nullopt;
}

} // namespace

/// Checks the version of the plan's format. The oldest plans have no version.
static void checkFormat(const nlohmann::json &plan, const std::string &origin) {
  int64_t format = plan.value("format", int64_t(1));
  if (format != plan::formatVersion)
    fail("H0383",
         "the plan in " + origin + " has format " + std::to_string(format) +
             "; this program reads format " +
             std::to_string(plan::formatVersion),
         "compile the binary again, or use the heddle that made it");
}

plan::Plan rt::parsePlan(const std::string &text, const std::string &origin) {
  plan::Plan plan;
  try {
    nlohmann::json source = nlohmann::json::parse(text);
    checkFormat(source, origin);
    source.get_to(plan);
  } catch (const nlohmann::json::parse_error &error) {
    fail("H0382", origin + " is damaged: its plan is not JSON", recompile);
  } catch (const nlohmann::json::exception &error) {
    fail("H0383",
         "the plan in " + origin +
             " is not one of this version: " + error.what(),
         recompile);
  }
  if (std::string problem = plan.mesh.problem(); !problem.empty())
    fail("H0383", "the mesh of the plan in " + origin + " is none: " + problem,
         recompile);
  if (plan.mesh.stages() != int64_t(plan.stages.size()))
    fail("H0383",
         "the plan in " + origin + " has " +
             std::to_string(plan.stages.size()) +
             " stages, which its mesh does not",
         recompile);
  if (plan::computeHash(plan) != plan.hash)
    fail("H0382", origin + " is damaged: its plan does not match its hash",
         recompile);
  return plan;
}

/// Reads a model: its plan and its kernels, from the sections with these names.
/// Returns nullopt if the file lacks one of the sections.
static std::optional<Binary> readModel(SectionReader &reader,
                                       const std::string &planName,
                                       const std::string &kernelName,
                                       const std::string &path) {
  auto text = reader.find(planName);
  auto kernels = reader.find(kernelName);
  if (!text || !kernels)
    return std::nullopt;
  Binary binary;
  binary.plan = parsePlan(std::string(text->begin(), text->end()), path);
  binary.kernels = std::move(*kernels);
  const std::string &expected = binary.plan.kernelImageHash;
  if (!expected.empty() &&
      plan::hashBytes(binary.kernels.data(), binary.kernels.size()) != expected)
    fail("H0382", path + " is damaged: its kernels do not match their hash",
         recompile);
  return binary;
}

/// Returns the path that errors show. A program opens itself as
/// /proc/self/exe: this symbolic link is replaced by the path of the program.
static std::string nameOf(const std::string &path) {
  std::error_code error;
  auto target = std::filesystem::read_symlink(path, error);
  return error || path.rfind("/proc/", 0) != 0 ? path : target.string();
}

std::vector<Binary> rt::readTargets(const std::string &path) {
  SectionReader reader(path);
  const std::string name = nameOf(path);
  reader.requireWhole(name);
  std::vector<Binary> targets;
  while (auto target = readModel(reader, plan::planSectionName(targets.size()),
                                 plan::kernelSectionName(targets.size()), name))
    targets.push_back(std::move(*target));
  if (targets.empty())
    fail("H0381", name + " carries no plan: it is not a compiled binary",
         "make one with `heddle compile MODEL -o BINARY`");
  return targets;
}

Binary rt::readBinary(const std::string &path) {
  return std::move(readTargets(path).front());
}

std::optional<Binary> rt::readDraft(const std::string &path, size_t target) {
  SectionReader reader(path);
  return readModel(
      reader, plan::draftSectionName(plan::planSectionName(target)),
      plan::draftSectionName(plan::kernelSectionName(target)), path);
}
