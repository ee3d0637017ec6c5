//===- MemoryImage.cpp - Memory saved in a file ---------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file format of saved memory, and the ways to load it: mapping huge pages,
// reading with threads, or for a GPU reading into pinned buffers.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/MemoryImage.h"
#include "heddle/runtime/core/Arena.h"
#include "heddle/runtime/core/UploadRing.h"
#include "heddle/runtime/io/File.h"
#include "heddle/runtime/io/RoundUp.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// Version of the file's format.
static constexpr char form[] = "heddle-image-1";

static constexpr int64_t hugePage = Arena::hugePageBytes;

namespace {

/// Opens a file for reading, and closes it when the object is destroyed. The
/// descriptor is -1 if the file cannot be opened.
class OpenFile {
public:
  explicit OpenFile(const std::string &path)
      : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;
  ~OpenFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  operator int() const { return descriptor; }

private:
  int descriptor;
};

} // namespace

[[noreturn]] static void failDamaged(const std::string &path,
                                     const std::string &what) {
  fail("H0482", "the kept weights in " + path + " are damaged: " + what,
       "they are made again; remove the file if this is said again");
}

/// Reads `bytes` bytes of the file at `offset`. Returns false if the file is
/// shorter or cannot be read.
static bool readFully(int file, char *target, int64_t bytes, int64_t offset) {
  while (bytes > 0) {
    ssize_t done = pread(file, target, bytes, offset);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return false;
    target += done;
    bytes -= done;
    offset += done;
  }
  return true;
}

/// Calls `f` for each index from 0 to `count - 1`, on all threads in parallel.
static void forEach(ThreadPool &threads, int64_t count,
                    const std::function<void(int64_t)> &f) {
  struct Work {
    int64_t count;
    const std::function<void(int64_t)> &f;
  } work = {count, f};
  auto share = [](const void *context, int64_t thread, int64_t all) {
    const auto &work = *static_cast<const Work *>(context);
    for (int64_t i = thread; i < work.count; i += all)
      work.f(i);
  };
  threads.run(share, &work);
}

MemoryImage::MemoryImage(Device &device, ThreadPool &threads,
                         const std::vector<ImagePart> &given, std::string key)
    : device(device), threads(threads), key(std::move(key)) {
  for (const ImagePart &part : given) {
    int64_t within = part.offset % hugePage;
    int64_t file =
        io::roundUp(std::max<int64_t>(end - within, 0), hugePage) + within;
    parts.push_back({part, file});
    end = file + part.bytes;
    isSeen &= device.map(part.begin) != nullptr;
    for (int64_t at = file; at < end;) {
      int64_t next = std::min(end, io::roundUp(at + 1, hugePage));
      blocks.push_back({part.begin + (at - file), next - at, at});
      at = next;
    }
  }
}

/// The most bytes of blocks that are written to a file, or copied to a device,
/// at a time.
static constexpr int64_t batchBytes = UploadRing::mostBytes;

void MemoryImage::forEachBatch(
    const std::function<void(size_t, size_t)> &f) const {
  for (size_t first = 0; first < blocks.size();) {
    size_t last = first + 1;
    while (last < blocks.size() &&
           bytesOf(first, last) + blocks[last].bytes <= batchBytes &&
           blocks[last].memory == blocks[first].memory + bytesOf(first, last) &&
           blocks[last].file == blocks[first].file + bytesOf(first, last))
      ++last;
    f(first, last);
    first = last;
  }
}

/// The bytes of the blocks from `first` to one before `end`, which are adjacent
/// in the file.
int64_t MemoryImage::bytesOf(size_t first, size_t end) const {
  const Block &last = blocks[end - 1];
  return last.file + last.bytes - blocks[first].file;
}

int64_t MemoryImage::bytes() const {
  return end + int64_t(blocks.size() * sizeof(uint64_t)) +
         int64_t(footerOf({}).size());
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Returns the text at the end of the file, after the checksums `sums`. The
/// text contains `key`, which identifies the file's content. The text's length
/// depends only on `key`, so a reader can find where the text begins.
std::string MemoryImage::footerOf(const std::vector<uint64_t> &sums) const {
  return io::hexDigest(
             io::hashBytes(sums.data(), sums.size() * sizeof(uint64_t))) +
         " " + key + " " + form + "\n";
}

void MemoryImage::write(const std::string &path, mode_t mode) const {
  device.synchronize();
  std::vector<uint64_t> sums(blocks.size());
  io::OutputFile file(path, mode);
  std::vector<char> zeros(hugePage);
  std::optional<DeviceMemory> pinned;
  if (!isSeen)
    pinned.emplace(device, MemoryRequest{MemoryKind::Pinned, batchBytes,
                                         "weights on their way"});
  forEachBatch([&](size_t first, size_t last) {
    const Block &begin = blocks[first];
    const int64_t count = bytesOf(first, last);
    char *memory = device.map(isSeen ? begin.memory : pinned->address());
    if (!isSeen) {
      device.copyOut(Stream::Compute, memory, begin.memory, count);
      device.synchronize(Stream::Compute);
    }
    forEach(threads, int64_t(last - first), [&](int64_t i) {
      const Block &block = blocks[first + i];
      sums[first + i] =
          io::hashBytes(memory + (block.file - begin.file), block.bytes);
    });
    // Fill the padding before a block in the file with zeros. A hole would keep
    // the file system from allocating whole huge pages.
    if (begin.file > file.size())
      file.write(zeros.data(), begin.file - file.size());
    // Linux keeps the data of a write of a huge page's size in a huge page.
    for (size_t i = first; i < last; ++i)
      file.write(memory + (blocks[i].file - begin.file), blocks[i].bytes);
  });
  std::string footer = footerOf(sums);
  file.write(sums.data(), sums.size() * sizeof(uint64_t));
  file.write(footer.data(), footer.size());
  file.commit(/*isDurable=*/false);
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

std::vector<uint64_t>
MemoryImage::readChecksums(int file, const std::string &path) const {
  struct stat status = {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    failDamaged(path, "it is no file");
  if (status.st_size != bytes())
    failDamaged(path, "it has " + std::to_string(status.st_size) +
                          " bytes, not " + std::to_string(bytes()));
  std::vector<uint64_t> sums(blocks.size());
  int64_t tableBytes = int64_t(sums.size() * sizeof(uint64_t));
  std::string footer(bytes() - end - tableBytes, '\0');
  if (!readFully(file, reinterpret_cast<char *>(sums.data()), tableBytes,
                 end) ||
      !readFully(file, footer.data(), int64_t(footer.size()), end + tableBytes))
    failDamaged(path, std::string("it cannot be read: ") + strerror(errno));
  if (footer != footerOf(sums))
    failDamaged(path, "its end is not that of such a file");
  return sums;
}

MemoryImage::Pages MemoryImage::pagesOf(const StoredPart &part) {
  int64_t page = Arena::pageSize();
  int64_t first = io::roundUp(part.offset, page);
  int64_t last = (part.offset + part.bytes) / page * page;
  return {first - part.offset, std::max<int64_t>(last - first, 0)};
}

bool MemoryImage::map(int file, const std::string &path) {
  for (const StoredPart &part : parts) {
    Pages pages = pagesOf(part);
    if (pages.bytes > 0 &&
        !device.mapFile(part.begin + pages.first, pages.bytes, file,
                        part.file + pages.first, path)) {
      unmap();
      return false;
    }
  }
  return true;
}

void MemoryImage::unmap() {
  for (const StoredPart &part : parts)
    if (Pages pages = pagesOf(part); pages.bytes > 0)
      device.unmapFile(part.begin + pages.first, pages.bytes);
}

/// Returns how many bytes from `begin` on are mapped to huge pages of files.
static int64_t hugeBytes(uintptr_t begin, int64_t bytes) {
  std::ifstream maps("/proc/self/smaps");
  int64_t sum = 0;
  bool isHere = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t kilobytes = 0;
    words >> first;
    // In /proc/self/smaps, the lines of each mapping begin with a line that has
    // its address range, such as 7f00-7f40.
    if (first.back() != ':') {
      uintptr_t at = std::stoull(first, nullptr, 16);
      isHere = at >= begin && at < begin + bytes;
    } else if (isHere &&
               (first == "FilePmdMapped:" || first == "ShmemPmdMapped:") &&
               words >> kilobytes) {
      sum += kilobytes * 1024;
    }
  }
  return sum;
}

/// Whether the system has mapped most of the file as huge pages. With smaller
/// pages, access would be slower than to anonymous memory.
bool MemoryImage::isHuge() const {
  std::vector<const volatile char *> touched;
  int64_t huge = 0;
  for (const StoredPart &part : parts) {
    int64_t first = io::roundUp(part.offset, hugePage);
    int64_t last = (part.offset + part.bytes) / hugePage * hugePage;
    for (int64_t at = first; at < last; at += hugePage)
      touched.push_back(device.map(part.begin + (at - part.offset)));
  }
  forEach(threads, int64_t(touched.size()),
          [&](int64_t i) { (void)*touched[i]; });
  for (const StoredPart &part : parts)
    if (Pages pages = pagesOf(part); pages.bytes > 0)
      huge += hugeBytes(
          reinterpret_cast<uintptr_t>(device.map(part.begin + pages.first)),
          pages.bytes);
  return huge >= int64_t(touched.size()) * hugePage / 10 * 9;
}

/// Reads the bytes of each range that `map` leaves out: only whole pages are
/// mapped, but a range may begin or end within a page.
void MemoryImage::readAround(int file, const std::string &path) const {
  for (const StoredPart &part : parts) {
    Pages pages = pagesOf(part);
    char *memory = device.map(part.begin);
    int64_t last = pages.first + pages.bytes;
    if (pages.bytes == 0)
      pages.first = last = part.bytes;
    if (!readFully(file, memory, pages.first, part.file) ||
        !readFully(file, memory + last, part.bytes - last, part.file + last))
      failDamaged(path, std::string("it cannot be read: ") + strerror(errno));
  }
}

/// Reads the bytes that are not mapped: all if `way` is Read, or else those
/// outside of whole pages. Then compares the checksums of all blocks. Returns
/// the offset in the file of a damaged block, or -1.
int64_t MemoryImage::fill(int file, const std::string &path, LoadWay way,
                          const std::vector<uint64_t> &sums) const {
  if (way == LoadWay::Map)
    readAround(file, path);
  std::atomic<int64_t> damaged{-1};
  forEach(threads, int64_t(blocks.size()), [&](int64_t i) {
    const Block &block = blocks[i];
    char *memory = device.map(block.memory);
    bool isThere =
        way == LoadWay::Map || readFully(file, memory, block.bytes, block.file);
    if (!isThere || io::hashBytes(memory, block.bytes) != sums[i])
      damaged = block.file;
  });
  return damaged;
}

/// Copies all blocks through pinned buffers to memory that the host cannot
/// access. Returns the same as `fill`.
int64_t MemoryImage::upload(int file, const std::vector<uint64_t> &sums) const {
  UploadRing ring(device, std::max(end, hugePage));
  std::atomic<int64_t> damaged{-1};
  forEachBatch([&](size_t first, size_t last) {
    const Block &begin = blocks[first];
    char *slot = ring.next();
    forEach(threads, int64_t(last - first), [&](int64_t i) {
      const Block &block = blocks[first + i];
      char *memory = slot + (block.file - begin.file);
      if (!readFully(file, memory, block.bytes, block.file) ||
          io::hashBytes(memory, block.bytes) != sums[first + i])
        damaged = block.file;
    });
    ring.send(begin.memory, bytesOf(first, last));
  });
  ring.finish();
  return damaged;
}

/// Fills all ranges with zeros.
void MemoryImage::clear() {
  for (const StoredPart &part : parts)
    device.fill(Stream::Compute, part.begin, 0, part.bytes);
  device.synchronize(Stream::Compute);
}

std::optional<LoadWay> MemoryImage::load(const std::string &path, LoadWay way) {
  OpenFile file(path);
  if (file < 0)
    return std::nullopt;
  std::vector<uint64_t> sums = readChecksums(file, path);
  bool isMapped = isSeen && way != LoadWay::Read && map(file, path);
  if (isMapped && way == LoadWay::Auto && !isHuge()) {
    unmap();
    isMapped = false;
  }
  try {
    int64_t damaged =
        isSeen ? fill(file, path, isMapped ? LoadWay::Map : LoadWay::Read, sums)
               : upload(file, sums);
    if (damaged >= 0)
      failDamaged(path, "the checksum of the bytes from " +
                            std::to_string(damaged) + " on is another one");
  } catch (const UserError &) {
    if (isMapped)
      unmap();
    clear();
    throw;
  }
  // Set the file's time, which says when it was last used. When a cache
  // directory is full, makeRoom removes the files with the oldest time.
  futimens(file, nullptr);
  return isMapped ? LoadWay::Map : LoadWay::Read;
}
