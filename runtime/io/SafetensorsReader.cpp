//===- SafetensorsReader.cpp - Read safetensors headers ---------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses a safetensors header with all checks of the reference reader.
//
//===----------------------------------------------------------------------===//

#include "SafetensorsTypes.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"
#include <algorithm>

using namespace heddle;
using namespace heddle::io;

static constexpr int64_t maxHeaderBytes = 100'000'000;
static const char *const fetchAgain =
    "the file is damaged: download or save it again";

int64_t TensorInfo::numElements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

int64_t io::dtypeBits(const std::string &dtype) {
  int rank = dtypeRank(dtype);
  return rank < 0 ? 0 : dtypes[rank].bits;
}

int io::dtypeRank(const std::string &dtype) {
  for (size_t i = 0; i < numDtypes; ++i)
    if (dtype == dtypes[i].name)
      return static_cast<int>(i);
  return -1;
}

std::string io::shapeToString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::optional<int64_t> io::tensorBits(const std::vector<int64_t> &shape,
                                      int64_t bits) {
  int64_t total = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(total, dim, &total))
      return std::nullopt;
  if (__builtin_mul_overflow(total, bits, &total))
    return std::nullopt;
  return total;
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

namespace {

/// Parses the text of a header into tensors, and checks them.
class HeaderReader {
public:
  HeaderReader(const MappedFile &file) : file(file) {
    header.file = file.path();
  }
  SafetensorsHeader read();

private:
  int64_t findText();
  void readMetadata(const JsonValue &value);
  void readTensor(const JsonMember &member);
  void checkLayout();
  [[noreturn]] void failAt(const char *code, const std::string &message,
                           const std::string &help = fetchAgain) {
    fail(code, message, help, {file.path(), 0, 0});
  }

  const MappedFile &file;
  SafetensorsHeader header;
  int64_t dataStart = 0;
};

} // namespace

/// Finds the length of the header's text, which begins at byte 8.
int64_t HeaderReader::findText() {
  if (file.size() < 8)
    failAt("H0316", "the file has " + std::to_string(file.size()) +
                        " bytes, too few for a safetensors header");
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | file.data()[i];
  if (length > maxHeaderBytes)
    failAt("H0317",
           "the header claims " + std::to_string(length) +
               " bytes; at most 100000000 are allowed",
           "is this a safetensors file? If so it is damaged: download or save "
           "it again");
  if (static_cast<int64_t>(length) > file.size() - 8)
    failAt("H0318", "the header claims " + std::to_string(length) +
                        " bytes, but only " + std::to_string(file.size() - 8) +
                        " follow");
  if (length == 0 || file.data()[8] != '{')
    failAt("H0319", "the header does not begin with '{'");
  return static_cast<int64_t>(length);
}

SafetensorsHeader HeaderReader::read() {
  int64_t length = findText();
  dataStart = 8 + length;
  header.hash = hashBytes(file.data(), dataStart);
  std::string text(reinterpret_cast<const char *>(file.data()) + 8, length);
  JsonValue root = parseJson(text, {file.path(), safetensorsJsonCodes, false});
  for (const JsonMember &member : root.members()) {
    if (member.key == "__metadata__")
      readMetadata(member.value);
    else
      readTensor(member);
  }
  checkLayout();
  return std::move(header);
}

void HeaderReader::readMetadata(const JsonValue &value) {
  if (!value.isObject())
    failAt("H0320", "__metadata__ must be an object of strings, not " +
                        value.describe());
  for (const JsonMember &member : value.members()) {
    if (!member.value.isString())
      failAt("H0320", "__metadata__ must hold strings only, but \"" +
                          member.key + "\" is " + member.value.describe());
    header.metadata[member.key] = member.value.asString();
  }
}

/// Reads an integer as the reference reader accepts it: without fraction and
/// exponent.
static int64_t plainInteger(const JsonValue &value) {
  if (value.kind() != JsonValue::Kind::Integer)
    value.failType("an integer below 2^63");
  return value.asInteger();
}

void HeaderReader::readTensor(const JsonMember &member) {
  TensorInfo info;
  info.name = member.key;
  info.file = file.path();
  std::string what = "tensor \"" + info.name + "\"";
  info.dtype = member.value.at("dtype").asString();
  int64_t bitsEach = dtypeBits(info.dtype);
  if (bitsEach == 0)
    failAt("H0321", what + " has the unknown dtype \"" + info.dtype + "\"",
           "save it as one of F32, BF16, F16");
  for (const JsonValue &dim : member.value.at("shape").elements())
    info.shape.push_back(plainInteger(dim));
  std::optional<int64_t> bits = tensorBits(info.shape, bitsEach);
  if (!bits)
    failAt("H0322",
           what + " has the impossible shape " + shapeToString(info.shape));
  if (*bits % 8 != 0)
    failAt("H0328", what + " has " + std::to_string(*bits) +
                        " bits, which are not whole bytes");
  const JsonValue &offsets = member.value.at("data_offsets");
  if (offsets.elements().size() != 2)
    offsets.failType("an array of two integers");
  int64_t begin = plainInteger(offsets.elements()[0]);
  int64_t end = plainInteger(offsets.elements()[1]);
  if (begin < 0 || end < begin || end - begin != *bits / 8)
    failAt("H0323",
           what + " with shape " + shapeToString(info.shape) + " and dtype " +
               info.dtype + " needs " + std::to_string(*bits / 8) +
               " bytes, but its data_offsets are [" + std::to_string(begin) +
               ", " + std::to_string(end) + "]");
  info.offset = begin;
  info.bytes = end - begin;
  header.tensors.push_back(std::move(info));
}

/// Checks that the tensors fill the rest of the file without gaps. Makes their
/// offsets relative to the beginning of the file.
void HeaderReader::checkLayout() {
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo &a, const TensorInfo &b) {
                     return std::make_pair(a.offset, a.bytes) <
                            std::make_pair(b.offset, b.bytes);
                   });
  int64_t position = 0;
  for (TensorInfo &info : header.tensors) {
    std::string at = " begins at byte " + std::to_string(info.offset) +
                     " of the data, but the tensor before it ends at byte " +
                     std::to_string(position);
    if (info.offset < position)
      failAt("H0324", "tensor \"" + info.name + "\" overlaps another: it" + at);
    if (info.offset > position)
      failAt("H0325",
             "there is a hole before tensor \"" + info.name + "\": it" + at);
    position += info.bytes;
    info.offset += dataStart;
  }
  int64_t present = file.size() - dataStart;
  std::string counts = "the header describes " + std::to_string(position) +
                       " bytes of tensors, but " + std::to_string(present) +
                       " follow it";
  if (present < position)
    failAt("H0326", "the file is truncated: " + counts);
  if (present > position)
    failAt("H0327", "the file is too long: " + counts);
}

SafetensorsHeader io::readSafetensorsHeader(const std::string &path) {
  std::shared_ptr<const MappedFile> file =
      MappedFile::open(path, safetensorsJsonCodes.unreadable);
  return HeaderReader(*file).read();
}
