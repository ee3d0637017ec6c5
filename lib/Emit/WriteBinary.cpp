//===- WriteBinary.cpp - Runtime, plan and kernels as one ELF file --------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/Emit/WriteBinary.h"
#include "heddle/PlanFormat/Draft.h"
#include "heddle/runtime/io/File.h"
#include <cstring>
#include <elf.h>
#include <map>
#include <vector>

using namespace heddle;

namespace {

/// Appends sections to an ELF program. The sections are not loaded into memory.
/// Existing content keeps its offset, and a new section table at the end of the
/// file replaces the old one.
class SectionAppender {
public:
  SectionAppender(const std::string &runtimePath, io::OutputFile &file);

  void add(const std::string &name, const std::string &bytes);
  void finish();

private:
  void padTo(int64_t alignment);
  const Elf64_Shdr &nameSection() const { return sections[header.e_shstrndx]; }
  [[noreturn]] static void malformed(const std::string &path) {
    fail("H0912", "the runtime " + path + " is no program to add sections to",
         "build or install Heddle again");
  }

  io::OutputFile &file;
  Elf64_Ehdr header;
  std::vector<Elf64_Shdr> sections;
  std::string names;
};

SectionAppender::SectionAppender(const std::string &runtimePath,
                                 io::OutputFile &file)
    : file(file) {
  auto runtime = io::MappedFile::open(runtimePath, "H0912");
  auto size = static_cast<uint64_t>(runtime->size());
  if (size < sizeof(header))
    malformed(runtimePath);
  memcpy(&header, runtime->data(), sizeof(header));
  uint64_t tableBytes = uint64_t(header.e_shnum) * sizeof(Elf64_Shdr);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > size ||
      tableBytes > size - header.e_shoff || header.e_shstrndx >= header.e_shnum)
    malformed(runtimePath);
  sections.resize(header.e_shnum);
  memcpy(sections.data(), runtime->data() + header.e_shoff, tableBytes);
  const Elf64_Shdr &strings = nameSection();
  if (strings.sh_offset > size || strings.sh_size > size - strings.sh_offset)
    malformed(runtimePath);
  names.assign(reinterpret_cast<const char *>(runtime->data()) +
                   strings.sh_offset,
               strings.sh_size);
  file.write(runtime->data(), runtime->size());
}

void SectionAppender::padTo(int64_t alignment) {
  std::vector<char> zeros((alignment - file.size() % alignment) % alignment);
  file.write(zeros.data(), zeros.size());
}

void SectionAppender::add(const std::string &name, const std::string &bytes) {
  constexpr int64_t page = 4096;
  padTo(page);
  Elf64_Shdr section = {};
  section.sh_name = names.size();
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = file.size();
  section.sh_size = bytes.size();
  section.sh_addralign = page;
  sections.push_back(section);
  names.append(name.c_str(), name.size() + 1);
  file.write(bytes.data(), bytes.size());
}

void SectionAppender::finish() {
  padTo(sizeof(uint64_t));
  Elf64_Shdr &strings = sections[header.e_shstrndx];
  strings.sh_offset = file.size();
  strings.sh_size = names.size();
  file.write(names.data(), names.size());
  padTo(sizeof(uint64_t));
  header.e_shoff = file.size();
  header.e_shnum = sections.size();
  file.write(sections.data(), sections.size() * sizeof(Elf64_Shdr));
  file.rewrite(0, &header, sizeof(header));
}

void writeAll(std::vector<emit::Code> &codes, const std::string &runtimePath,
              const std::string &output) {
  io::OutputFile file(output, 0777);
  SectionAppender appender(runtimePath, file);
  std::map<emit::Model, size_t> targets;
  for (auto &[plan, image, model] : codes) {
    plan.kernelImageHash = plan::hashBytes(image.data(), image.size());
    size_t target = targets[model]++;
    auto add = [&, isDraft = model == emit::Model::Draft](
                   const std::string &name, const std::string &bytes) {
      appender.add(isDraft ? plan::draftSectionName(name) : name, bytes);
    };
    add(plan::planSectionName(target), plan::seal(plan));
    add(plan::kernelSectionName(target), image);
  }
  appender.finish();
  file.commit();
}

/// Runs `write`. If it throws an error, returns this error as a diagnostic;
/// otherwise returns nullopt.
template <typename Write>
std::optional<Diagnostic> diagnosticOf(const Write &write) {
  try {
    write();
    return std::nullopt;
  } catch (const UserError &error) {
    return error.diagnostic;
  } catch (const std::exception &error) {
    return Diagnostic{"H0903", error.what(), {}, {}, ""};
  }
}

} // namespace

std::optional<Diagnostic> emit::writeBinary(std::vector<Code> &codes,
                                            const std::string &runtimePath,
                                            const std::string &output) {
  return diagnosticOf([&] { writeAll(codes, runtimePath, output); });
}

std::optional<Diagnostic> emit::writeText(const std::string &path,
                                          const std::string &text) {
  return diagnosticOf([&] { io::writeText(path, text, /*isDurable=*/false); });
}
