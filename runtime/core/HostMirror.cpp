//===- HostMirror.cpp - Device memory as the host has it ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/HostMirror.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle::rt;

HostMirror::HostMirror(Device &device,
                       const std::vector<const DeviceMemory *> &memory)
    : device(device), computed(device.makeEvent()) {
  for (const DeviceMemory *part : memory) {
    if (part->size() == 0)
      continue;
    Region region;
    region.begin = part->address();
    region.bytes = part->size();
    region.host = device.map(region.begin);
    if (!region.host) {
      region.pages = Arena(region.bytes, "the host's copy of device memory");
      region.host = region.pages.data();
    }
    regions.push_back(std::move(region));
  }
}

const HostMirror::Region &HostMirror::find(Address address,
                                           int64_t bytes) const {
  for (const Region &region : regions) {
    int64_t offset = address - region.begin;
    if (offset >= 0 && offset < region.bytes && bytes <= region.bytes - offset)
      return region;
  }
  fail("H0412", "the host looks for bytes where its device has none",
       "report this as a bug");
}

char *HostMirror::at(Address address, int64_t bytes) const {
  if (bytes == 0)
    return nullptr;
  const Region &region = find(address, bytes);
  return region.host + (address - region.begin);
}

void HostMirror::awaitComputation() {
  device.record(Stream::Compute, computed);
  device.wait(Stream::Transfer, computed);
}

char *HostMirror::load(Address address, int64_t bytes) {
  char *host = at(address, bytes);
  if (bytes == 0 || !copies(address, bytes)) {
    device.synchronize(Stream::Compute);
    return host;
  }
  awaitComputation();
  device.copyOut(Stream::Transfer, host, address, bytes);
  device.synchronize(Stream::Transfer);
  return host;
}

void HostMirror::store(Address address, int64_t bytes) {
  if (bytes == 0 || !copies(address, bytes))
    return;
  awaitComputation();
  device.copyIn(Stream::Transfer, address, at(address, bytes), bytes);
  device.synchronize(Stream::Transfer);
}

void HostMirror::release(Address address, int64_t bytes) {
  if (bytes == 0 || !copies(address, bytes))
    return;
  const Region &region = find(address, bytes);
  region.pages.discard(address - region.begin, bytes);
}
